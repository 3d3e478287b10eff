"""Runs tasks in this process, without Spark and Java."""

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from os import cpu_count
from typing import Any

from ottla.base.errors import OttlaError, TaskError
from ottla.tables import OnTasks, Work

MOST_THREADS = 4
"""More threads would wait for each other: Arrow parses and compresses without the interpreter's
lock, but Python code between its calls needs the lock. Each thread holds one row group in memory.
"""


class LocalEngine:
    """See `Engine`. Tasks run in threads, a single task in the caller's thread."""

    def __init__(self, threads: int | None = None) -> None:
        self._threads = threads or min(cpu_count() or 1, MOST_THREADS)

    def __enter__(self) -> "LocalEngine":
        return self

    def __exit__(self, *error: Any) -> None:
        """Nothing to release."""

    def start(self, *, is_short: bool) -> None:
        """Nothing to start."""

    def run(self, tasks: Sequence[Work], on_tasks: OnTasks) -> list[str]:
        count = min(len(tasks), self._threads)
        if count > 1:
            return _run_in_threads(tasks, on_tasks, count)
        found: list[str] = []
        for number, task in enumerate(tasks, 1):
            found += _run(task)
            on_tasks(number, len(tasks))
        return found


def _run(task: Work) -> Sequence[str]:
    try:
        return task()
    except (OttlaError, OSError):
        raise
    except Exception as error:
        # An error of a library fails only this table's load: a follower continues with other
        # tables.
        kind = type(error).__name__
        raise TaskError(f"a task ended with {kind}: {error}", kind) from error


def _run_in_threads(tasks: Sequence[Work], on_tasks: OnTasks, count: int) -> list[str]:
    """Returns the results in order of the tasks; raises the error of the first task that fails."""
    with ThreadPoolExecutor(count, thread_name_prefix="ottla-load") as pool:
        futures: list[Future[Sequence[str]]] = [pool.submit(_run, task) for task in tasks]
        try:
            for done, future in enumerate(as_completed(futures), 1):
                future.result()
                on_tasks(done, len(tasks))
        except BaseException:
            # Running tasks finish their files, which no reader sees.
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return [text for future in futures for text in future.result()]
