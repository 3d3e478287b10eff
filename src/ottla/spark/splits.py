"""How a read is shared out among tasks: by bytes, so that no task is left with most of the work.

A range of one partition is known as stretches (for files: its segments) of which each has offsets
and a size. Cuts inside a stretch are by proportion: they need not fall between two batches, since
a task takes only the offsets of its own range out of the batches that it shares with a neighbour.
"""

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from ottla.spark.manifest import OffsetRange

_TOLERANCE = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """Offsets of one partition, and how much there is to read of them (in any one unit)."""

    from_offset: int
    until_offset: int
    size: int

    def within(self, wanted: OffsetRange) -> "Stretch | None":
        """The part that is wanted, with its share of the size."""
        from_offset = max(self.from_offset, wanted.from_offset)
        until_offset = min(self.until_offset, wanted.until_offset)
        if from_offset >= until_offset:
            return None
        span = self.until_offset - self.from_offset
        share = self.size * (until_offset - from_offset) // span
        return Stretch(from_offset=from_offset, until_offset=until_offset, size=max(1, share))


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitRule:
    """At least `min_count` tasks, unless that makes them smaller than `min_size`; none much larger
    than `max_size`."""

    min_count: int
    min_size: int
    max_size: int


def split_ranges(
    partitions: Mapping[int, Sequence[Stretch]], rule: SplitRule
) -> list[tuple[int, OffsetRange]]:
    """The partition and offsets of each task; together they are the stretches, gaps included."""
    sizes = {number: _size(stretches) for number, stretches in partitions.items()}
    fair_size = sum(sizes.values()) // rule.min_count
    task_size = max(1, rule.min_size, min(rule.max_size, fair_size))
    return [
        (number, part)
        for number, stretches in partitions.items()
        if stretches
        for part in _cut(stretches, _task_count(sizes[number], task_size))
    ]


def _size(stretches: Sequence[Stretch]) -> int:
    return sum(stretch.size for stretch in stretches)


def _cut(stretches: Sequence[Stretch], count: int) -> list[OffsetRange]:
    """About `count` parts of the same size, none of them empty."""
    ends = list(accumulate(stretch.size for stretch in stretches))
    total = ends[-1]
    cuts = {stretches[0].from_offset, stretches[-1].until_offset}
    for number in range(1, count):
        place = total * number // count
        stretch = stretches[bisect_right(ends, place)]
        before = ends[bisect_right(ends, place)] - stretch.size
        span = stretch.until_offset - stretch.from_offset
        cuts.add(stretch.from_offset + span * (place - before) // stretch.size)
    return [
        OffsetRange(from_offset=from_offset, until_offset=until_offset)
        for from_offset, until_offset in pairwise(sorted(cuts))
    ]


def _task_count(size: int, task_size: int) -> int:
    """A little too much for one task is still one task's work."""
    return max(1, math.ceil(size / task_size - _TOLERANCE))
