"""Long requests that are suspended wherever they give way, without a server."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from threading import Semaphore

from ottla.base.turns import CURRENT, Turn
from ottla.server.dispatching.turns import LongRequests
from tests.support.patience import PATIENCE_S


@contextmanager
def with_others_in_between(others: Callable[[], None]) -> Iterator[None]:
    """Whatever gives way is suspended each time, and `others` have their turn."""
    ticks = count()

    def suspend() -> None:
        token = CURRENT.set(None)
        others()
        CURRENT.reset(token)

    turn = Turn(suspend, lambda: float(next(ticks)), max_elements=1000, max_size=1000)
    token = CURRENT.set(turn)
    try:
        yield
    finally:
        CURRENT.reset(token)


class TakingTurns:
    """Several requests at a time, each suspended wherever it gives way; all end at the exit."""

    def __init__(self) -> None:
        ticks = count()
        self._returned = Semaphore(0)
        self.requests = LongRequests(self._returned.release, lambda: float(next(ticks)))

    def begin(self, deed: Callable[[], object]) -> None:
        def work(_: object) -> None:
            deed()

        self.requests.add(work, frame_size=1)

    def run(self, slices: int) -> None:
        for _ in range(slices):
            self._run_slice()

    def _run_slice(self) -> None:
        is_idle = self.requests.has_begun and not self.requests.has_work
        if self._returned.acquire(timeout=PATIENCE_S if is_idle else 0):
            self.requests.take_back()
        self.requests.run_slice()

    def __enter__(self) -> "TakingTurns":
        return self

    def __exit__(self, *_: object) -> None:
        while self.requests.has_work or self.requests.has_begun:
            self._run_slice()
