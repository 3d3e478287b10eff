"""The lag of groups in time, derived from the log ends that earlier scrapes have seen.

Reading a record's own timestamp would cost a disk read for each partition and scrape. Instead each
scrape records the end of each log in which a group lags; the time at which the log ended at the
group's offset is between two scrapes, and is interpolated.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Collection

from ottla.base.partitions import TopicPartition

KEPT = 120
"""Log ends that are kept: two hours of scrapes per minute.

When there are more, every second one is dropped.
"""


_End = tuple[int, float, float]
"""A log end offset, and when it was seen first and last."""


class LagTimes:
    """Used by one scrape at a time."""

    def __init__(self) -> None:
        self._seen: dict[TopicPartition, deque[_End]] = {}

    def note(self, where: TopicPartition, end_offset: int, now_s: float) -> None:
        seen = self._seen.setdefault(where, deque())
        if seen and seen[-1][0] == end_offset:
            seen[-1] = (end_offset, seen[-1][1], now_s)
            return
        seen.append((end_offset, now_s, now_s))
        if len(seen) > KEPT:
            last = seen[-1]
            self._seen[where] = deque(list(seen)[:-1:2])
            self._seen[where].append(last)

    def lag_s(self, where: TopicPartition, offset: int, now_s: float) -> float:
        """Returns 0 for a group that is at the end; at most the time since the first scrape."""
        seen = self._seen.get(where)
        if not seen or offset >= seen[-1][0]:
            return 0.0
        index = bisect_right(seen, offset, key=lambda one: one[0])
        if index == 0:
            return now_s - seen[0][1]
        (before, _, before_s), (after, after_s, _) = seen[index - 1], seen[index]
        reached_s = before_s + (after_s - before_s) * (offset - before) / (after - before)
        return now_s - reached_s

    def keep_only(self, known: Collection[TopicPartition]) -> None:
        """Forgets partitions without committed offsets."""
        for where in self._seen.keys() - known:
            del self._seen[where]
