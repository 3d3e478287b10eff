"""Requests to a store that go on while who asked for them does other work.

Each has a thread of its own, which does not keep the process from ending: a store that is silent
would hold it for as long as its patience lasts.
"""

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

Result = TypeVar("Result")


def begin(work: Callable[[], Result]) -> Callable[[], Result]:
    """Starts the work, and returns what waits for it: it returns the result, or raises what the
    work has raised.
    """
    return _Work(work).wait


class _Work(Generic[Result]):
    def __init__(self, work: Callable[[], Result]) -> None:
        self._work = work
        self._results: list[Result] = []
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True, name="ottla-read-ahead")
        self._thread.start()

    def wait(self) -> Result:
        self._thread.join()
        if self._error is not None:
            raise self._error
        return self._results[0]

    def _run(self) -> None:
        try:
            self._results.append(self._work())
        except BaseException as error:
            self._error = error
