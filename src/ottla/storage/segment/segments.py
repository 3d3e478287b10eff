"""The segments of one log in order of base offset, looked up by offset.

Readers take `values`, an immutable tuple that every change replaces, so that a deletion never
disturbs a search. Kafka's counterpart: `LogSegments`.
"""

from bisect import bisect_right
from collections.abc import Iterable

from ottla.storage.segment.segment import Segment


class Segments:
    """An ordered collection of segments with distinct base offsets."""

    __slots__ = ("_base_offsets", "values")

    def __init__(self, segments: Iterable[Segment] = ()) -> None:
        self.values: tuple[Segment, ...] = tuple(sorted(segments, key=lambda one: one.base_offset))
        self._base_offsets = [one.base_offset for one in self.values]

    def __len__(self) -> int:
        return len(self.values)

    @property
    def active(self) -> Segment:
        """The last segment, which takes the appends."""
        return self.values[-1]

    @property
    def first(self) -> Segment:
        return self.values[0]

    def floor_index(self, offset: int) -> int:
        """The index of the segment that covers `offset`; -1 before the first segment."""
        return bisect_right(self._base_offsets, offset) - 1

    def floor(self, offset: int) -> Segment | None:
        index = self.floor_index(offset)
        return self.values[index] if index >= 0 else None

    def from_offset(self, offset: int) -> tuple[Segment, ...]:
        """The segment that covers `offset`, and all segments after it."""
        return self.values[max(self.floor_index(offset), 0) :]

    def wholly_below(self, offset: int) -> tuple[Segment, ...]:
        """The segments that end at or before `offset`; never the active one."""
        return self.values[: max(self.floor_index(offset), 0)]

    def add(self, segment: Segment) -> None:
        if not self.values or segment.base_offset > self._base_offsets[-1]:
            # Nearly every addition is at the end, where nothing has to be sorted.
            self._base_offsets.append(segment.base_offset)
            self.values = (*self.values, segment)
        else:
            self._replace([*self.values, segment])

    def remove(self, gone: Iterable[Segment]) -> None:
        names = {one.base_offset for one in gone}
        self._replace([one for one in self.values if one.base_offset not in names])

    def remove_oldest(self, count: int) -> None:
        """Removes the first `count` segments."""
        # Without a sort: retention removes thousands of segments, a few at a time.
        del self._base_offsets[:count]
        self.values = self.values[count:]

    def _replace(self, segments: list[Segment]) -> None:
        segments.sort(key=lambda one: one.base_offset)
        self._base_offsets = [one.base_offset for one in segments]
        assert len(set(self._base_offsets)) == len(segments), "two segments of one base offset"
        self.values = tuple(segments)
