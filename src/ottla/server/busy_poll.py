"""Waiting for events without sleep while requests come one right after the answer to another.

To be woken costs a thread more than a small request does. So when a wait was over almost at once,
the next ones look again and again for a short while before they sleep; the first that looks in vain
ends that. A client that is silent, or sends now and then, costs no more than before. Between two
looks others that want the core have it: a client's thread on the same one would else wait for all
looks.
"""

from collections.abc import Callable, Sequence
from os import sched_yield
from time import perf_counter
from typing import Final, Generic, TypeVar

BUSY_POLL_S: Final = 100e-6
"""How long to look; and how short a wait must have been for the next one to look."""

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
        give_way: Callable[[], None] = sched_yield,
    ) -> None:
        self._select = select
        self._now_s = now_s
        self._give_way = give_way
        self._is_busy = False

    def wait(self, timeout_s: Callable[[], float | None]) -> Sequence[E]:
        """Events, or none once the timeout is over.

        That is only asked for before a sleep: to reckon it takes longer than a look.
        """
        now_s, select = self._now_s, self._select
        started_s = now_s()
        while self._is_busy:
            events = select(0)
            if events:
                return events
            self._give_way()
            self._is_busy = now_s() - started_s < BUSY_POLL_S
        started_s = now_s()
        events = select(timeout_s())
        self._is_busy = bool(events) and now_s() - started_s < BUSY_POLL_S
        return events
