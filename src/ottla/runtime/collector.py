"""When a broker lets Python look for cycles: between requests, and not in the middle of one.

A full collection looks at every object that was not frozen: 0.1 s beside a request of 100,000
elements, 0.15 s with 10,000 segments, and every client waits. Cycles are few, those of deleted
topics above all. So full collections are made when no client has asked for a while, or, on a broker
that is never quiet, when no long request is at work. What survives is frozen: the next collection
need not look at it again. Frozen objects are looked at again in a small share of the time only,
since a list of all topics of a large broker makes enough objects for a collection to be due.
"""

import gc
import time
from collections.abc import Callable
from typing import Final

NEW_OBJECTS: Final = 700
"""Python's default: a command begins with more, so that its imports are not looked through."""

COLLECTIONS_UNTIL_DUE: Final = 10
"""How often Python collects what is young before it may look at everything, by default."""

COLLECTIONS_UNTIL_OVERDUE: Final = 200
"""Twenty times as often: 1.4 million objects more than before."""

COLLECTIONS_UNTIL_FULL: Final = 2000
"""Python collects by itself then: long requests have been at work all the time."""

FROZEN_COLLECTIONS: Final = 16
"""Of so many collections on a busy broker, one looks at what was frozen, too."""


LONGEST_SHARE: Final = 0.01
"""Of the time, for collections in quiet moments that look at what was frozen, too."""


class Collector:
    """Begins when everything is loaded that stays for as long as the broker runs."""

    def __init__(self, now_s: Callable[[], float] = time.perf_counter) -> None:
        self._collections_until_all = FROZEN_COLLECTIONS
        self._now_s = now_s
        self._all_again_s = 0.0

    def begin(self) -> None:
        self._collect_all()
        _, middle, _ = gc.get_threshold()
        gc.set_threshold(NEW_OBJECTS, middle, COLLECTIONS_UNTIL_FULL)

    def is_due(self) -> bool:
        """Whether it is worth it when nobody waits."""
        return gc.get_count()[2] >= COLLECTIONS_UNTIL_DUE

    def collect_when_quiet(self) -> None:
        if self._now_s() >= self._all_again_s:
            self._collect_all()
        else:
            gc.collect()
            gc.freeze()

    def collect_when_overdue(self) -> None:
        """Called when no long request is at work."""
        if gc.get_count()[2] < COLLECTIONS_UNTIL_OVERDUE:
            return
        self._collections_until_all -= 1
        if not self._collections_until_all:
            self._collect_all()
            return
        # What is old was looked at when it was young; to look again takes 70 ms after 3,000
        # partitions were made.
        gc.collect(1)
        gc.freeze()

    def _collect_all(self) -> None:
        self._collections_until_all = FROZEN_COLLECTIONS
        began_s = self._now_s()
        gc.unfreeze()
        gc.collect()
        gc.freeze()
        ended_s = self._now_s()
        self._all_again_s = ended_s + (ended_s - began_s) / LONGEST_SHARE
