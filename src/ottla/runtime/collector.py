"""Schedules a broker's garbage collections between requests.

A full collection traverses every object that was not frozen: 0.1 s during a request of 100,000
elements, 0.15 s with 10,000 segments, and every client waits. Cycles are few, mostly of deleted
topics. So full collections run when no request has come for a while, or, on a busy broker, when no
long request is running. Surviving objects are frozen: the next collection skips them. Frozen
objects are traversed again only in a small share of the time, since a list of all topics of a large
broker creates enough objects for a collection to be due.
"""

import gc
import time
from collections.abc import Callable
from typing import Final

NEW_OBJECTS: Final = 700
"""Python's default; commands start with a higher threshold, so that imports are not traversed."""

COLLECTIONS_UNTIL_DUE: Final = 10
"""Python's default number of collections of the middle generation before a full one."""

COLLECTIONS_UNTIL_OVERDUE: Final = 200
"""Twenty times as many: 1.4 million new objects."""

COLLECTIONS_UNTIL_FULL: Final = 2000
"""Python then runs a full collection itself: long requests have been running all the time."""

FROZEN_COLLECTIONS: Final = 16
"""On a busy broker, one of this many collections includes frozen objects."""


LONGEST_SHARE: Final = 0.01
"""The maximum share of the time for collections of an idle broker that include frozen objects."""


class Collector:
    """Call `begin` once everything is loaded that stays for as long as the broker runs."""

    def __init__(self, now_s: Callable[[], float] = time.perf_counter) -> None:
        self._collections_until_all = FROZEN_COLLECTIONS
        self._now_s = now_s
        self._all_again_s = 0.0

    def begin(self) -> None:
        self._collect_all()
        _, middle, _ = gc.get_threshold()
        gc.set_threshold(NEW_OBJECTS, middle, COLLECTIONS_UNTIL_FULL)

    def is_due(self) -> bool:
        """Whether a full collection is due if no client waits."""
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
        # Old objects were traversed when they were young; a full collection takes 70 ms after
        # 3,000 partitions were created.
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
