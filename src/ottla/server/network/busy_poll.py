"""Busy polling: waits for events without sleeping while each request follows right after the
previous response. Waking a thread costs more than a small request. So after a very short wait, the
next waits poll for a short while before they sleep, until one polls in vain. A client that is
silent, or sends rarely, costs no more than before. Between two polls the thread yields the core: a
client's thread on the same core would otherwise wait for all polls.
"""

from collections.abc import Callable, Sequence
from os import sched_yield
from time import perf_counter
from typing import Final, Generic, TypeVar

BUSY_POLL_S: Final = 100e-6
"""How long to poll, and the longest wait after which the next one polls."""

PUNCTUAL_S: Final = 0.01
LATENESS: Final = 1 / 150
"""Linux ends a wait late by up to a 1000th of it, for a niced process by up to a 200th."""

E = TypeVar("E")


def sleep_towards(left_s: float) -> float:
    """How long to sleep when something is due in `left_s`, so as not to come late.

    A sleep that is cut short is followed by another; the last one is too short to be late.
    """
    return left_s if left_s <= PUNCTUAL_S else left_s * (1 - LATENESS)


class BusyPoll(Generic[E]):
    """`select` waits as `selectors.BaseSelector.select` does."""

    def __init__(
        self,
        select: Callable[[float | None], Sequence[E]],
        now_s: Callable[[], float] = perf_counter,
        yield_processor: Callable[[], None] = sched_yield,
    ) -> None:
        self._select = select
        self._now_s = now_s
        self._yield_processor = yield_processor
        self._is_busy = False

    def wait(self, timeout_s: Callable[[], float | None]) -> Sequence[E]:
        """Returns events, or none after the timeout, which is only computed before a sleep,
        since that takes longer than a poll.
        """
        now_s, select = self._now_s, self._select
        started_s = now_s()
        while self._is_busy:
            events = select(0)
            if events:
                return events
            self._yield_processor()
            self._is_busy = now_s() - started_s < BUSY_POLL_S
        started_s = now_s()
        events = select(timeout_s())
        self._is_busy = bool(events) and now_s() - started_s < BUSY_POLL_S
        return events
