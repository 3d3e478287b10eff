"""Divides a read into tasks of similar size in bytes.

A range of one partition is given as spans (for files: parts of segments) with offsets and a size.
Cuts inside a span are proportional and may fall inside a batch: a task takes only the records of
its own range from a batch that it shares with a neighbour.
"""

import math
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, pairwise
from os import cpu_count
from typing import TypeVar

from ottla.base.partitions import OffsetRange
from ottla.base.values import dataclass

_TOLERANCE = 0.1

Place = TypeVar("Place")


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitOptions:
    """The user's options: the minimum number of tasks, and the maximum of offsets in each."""

    min_count: int | None = None
    max_offsets: int | None = None

    def rule(self, *, min_size: int, max_size: int) -> "SplitRule":
        """The rule for these options; by default one task per core, if there is enough work."""
        return SplitRule(
            min_count=self.min_count or cpu_count() or 1,
            min_size=1 if self.min_count else min_size,
            max_size=max_size,
            max_offsets=self.max_offsets,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetSpan(OffsetRange):
    """Offsets of one partition, and the amount of work for them in any unit."""

    size: int

    def within(self, wanted: OffsetRange) -> "OffsetSpan | None":
        """The part within the range, with its share of the size; `None` if there is none."""
        from_offset = max(self.from_offset, wanted.from_offset)
        until_offset = min(self.until_offset, wanted.until_offset)
        if from_offset >= until_offset:
            return None
        if self.size and (from_offset, until_offset) == (self.from_offset, self.until_offset):
            return self
        share = self.size * (until_offset - from_offset) // self.count
        return OffsetSpan(from_offset=from_offset, until_offset=until_offset, size=max(1, share))


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitRule:
    """At least `min_count` tasks, unless they would be smaller than `min_size`; none much larger
    than `max_size`, and none with more than `max_offsets`.
    """

    min_count: int
    min_size: int
    max_size: int
    max_offsets: int | None = None


def split_ranges(
    partitions: Mapping[Place, Sequence[OffsetSpan]], rule: SplitRule
) -> list[tuple[Place, OffsetRange]]:
    """The partition and offsets of each task; together they cover the spans, including gaps."""
    sizes = {place: _size(spans) for place, spans in partitions.items()}
    fair_size = sum(sizes.values()) // rule.min_count
    task_size = max(1, rule.min_size, min(rule.max_size, fair_size))
    return [
        (place, piece)
        for place, spans in partitions.items()
        if spans
        for part in _cut(spans, _task_count(sizes[place], task_size))
        for piece in even_pieces(part, rule.max_offsets)
    ]


def even_pieces(whole: OffsetRange, max_offsets: int | None) -> Iterator[OffsetRange]:
    """Divides a range into pieces of about the same count of offsets, at most `max_offsets`."""
    count = 1 if max_offsets is None else max(1, -(-whole.count // max_offsets))
    edges = [whole.from_offset + whole.count * number // count for number in range(count + 1)]
    for from_offset, until_offset in pairwise(edges):
        yield OffsetRange(from_offset=from_offset, until_offset=until_offset)


def _size(spans: Sequence[OffsetSpan]) -> int:
    return sum(span.size for span in spans)


def _cut(spans: Sequence[OffsetSpan], count: int) -> list[OffsetRange]:
    """About `count` non-empty parts of similar size."""
    ends = list(accumulate(span.size for span in spans))
    total = ends[-1]
    cuts = {spans[0].from_offset, spans[-1].until_offset}
    for number in range(1, count):
        place = total * number // count
        index = bisect_right(ends, place)
        span = spans[index]
        before = ends[index] - span.size
        cuts.add(span.from_offset + span.count * (place - before) // span.size)
    return [
        OffsetRange(from_offset=from_offset, until_offset=until_offset)
        for from_offset, until_offset in pairwise(sorted(cuts))
    ]


def _task_count(size: int, task_size: int) -> int:
    """The number of tasks; a remainder below the tolerance does not get a task of its own."""
    return max(1, math.ceil(size / task_size - _TOLERANCE))
