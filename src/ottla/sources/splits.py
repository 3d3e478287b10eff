"""How a read is shared out among tasks: by bytes, so that no task is left with most of the work.

A range of one partition is known as stretches (for files: its segments) of which each has offsets
and a size. Cuts inside a stretch are by proportion: they need not fall between two batches, since
a task takes only the offsets of its own range out of the batches that it shares with a neighbour.
"""

import math
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from os import cpu_count
from typing import TypeVar

from ottla.base.partitions import OffsetRange

_TOLERANCE = 0.1

Place = TypeVar("Place")


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskWishes:
    """What a user may ask of the tasks: how many at least, and offsets in each at the most."""

    min_count: int | None = None
    max_offsets: int | None = None

    def rule(self, *, min_size: int, max_size: int) -> "SplitRule":
        """One task for each core where nothing is asked for, and there is enough to do."""
        return SplitRule(
            min_count=self.min_count or cpu_count() or 1,
            min_size=1 if self.min_count else min_size,
            max_size=max_size,
            max_offsets=self.max_offsets,
        )


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
    than `max_size`, and none with more than `max_offsets`."""

    min_count: int
    min_size: int
    max_size: int
    max_offsets: int | None = None


def split_ranges(
    partitions: Mapping[Place, Sequence[Stretch]], rule: SplitRule
) -> list[tuple[Place, OffsetRange]]:
    """The partition and offsets of each task; together they are the stretches, gaps included."""
    sizes = {place: _size(stretches) for place, stretches in partitions.items()}
    fair_size = sum(sizes.values()) // rule.min_count
    task_size = max(1, rule.min_size, min(rule.max_size, fair_size))
    return [
        (place, piece)
        for place, stretches in partitions.items()
        if stretches
        for part in _cut(stretches, _task_count(sizes[place], task_size))
        for piece in _pieces(part, rule.max_offsets)
    ]


def _pieces(part: OffsetRange, max_offsets: int | None) -> Iterator[OffsetRange]:
    """A part in pieces of about the same count of offsets, none above the limit."""
    span = part.until_offset - part.from_offset
    count = 1 if max_offsets is None else max(1, math.ceil(span / max_offsets))
    edges = [part.from_offset + span * number // count for number in range(count + 1)]
    for from_offset, until_offset in pairwise(edges):
        yield OffsetRange(from_offset=from_offset, until_offset=until_offset)


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
