"""The segments of one log in order of base offset, looked up by offset.

Readers take `values`, an immutable tuple that every change replaces, so that a deletion never
disturbs a search. Kafka's counterpart: `LogSegments`.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator

from ottla.storage.segment.segment import Segment


class Segments:
    """An ordered collection of segments with distinct base offsets."""

    __slots__ = ("_base_offsets", "_maybe_aborted", "_segments", "_values")

    def __init__(self, segments: Iterable[Segment] = ()) -> None:
        self._maybe_aborted: list[int] = []
        """The base offsets of segments whose transaction index may have entries, ascending."""
        self._values: tuple[Segment, ...] | None = None
        self._replace(list(segments))

    def __len__(self) -> int:
        return len(self._segments)

    @property
    def values(self) -> tuple[Segment, ...]:
        # Made when it is asked for: a start adds thousands of segments, one by one.
        if self._values is None:
            self._values = tuple(self._segments)
        return self._values

    @property
    def active(self) -> Segment:
        """The last segment, which takes the appends."""
        return self._segments[-1]

    @property
    def first(self) -> Segment:
        return self._segments[0]

    def floor_index(self, offset: int) -> int:
        """The index of the segment that covers `offset`; -1 before the first segment."""
        return bisect_right(self._base_offsets, offset) - 1

    def floor(self, offset: int) -> Segment | None:
        index = self.floor_index(offset)
        return self._segments[index] if index >= 0 else None

    def after(self, segment: Segment) -> Segment | None:
        """The segment that follows another, which may be gone; `None` after the last."""
        index = self.floor_index(segment.base_offset) + 1
        return self._segments[index] if index < len(self._segments) else None

    def from_offset(self, offset: int) -> tuple[Segment, ...]:
        """The segment that covers `offset`, and all segments after it."""
        return self.values[max(self.floor_index(offset), 0) :]

    def iterate_from(self, offset: int) -> Iterator[Segment]:
        """As `from_offset`, for a search that ends early: costs nothing for what it leaves out."""
        values = self.values
        return map(values.__getitem__, range(max(self.floor_index(offset), 0), len(values)))

    def may_have_aborted(self, offset: int) -> bool:
        """Whether `maybe_aborted_from` has any."""
        return next(self.maybe_aborted_from(offset), None) is not None

    def maybe_aborted_from(self, offset: int) -> Iterator[Segment]:
        """Those of `from_offset` whose transaction index may have entries.

        Of ten thousand segments hardly any has aborts, and each read of committed records asks for
        those of all segments after it.
        """
        maybe = self._maybe_aborted
        start = self._base_offsets[max(self.floor_index(offset), 0)]
        while (index := bisect_left(maybe, start)) < len(maybe):
            start = maybe[index] + 1
            segment = self.floor(maybe[index])
            if segment is not None and segment.base_offset == maybe[index]:
                yield segment  # whose index may leave the list when it is looked into
            else:
                del maybe[index]  # the segment is gone

    def wholly_below(self, offset: int) -> tuple[Segment, ...]:
        """The segments that end at or before `offset`; never the active one."""
        return self.values[: max(self.floor_index(offset), 0)]

    def add(self, segment: Segment) -> None:
        if self._segments and segment.base_offset <= self._base_offsets[-1]:
            self._replace([*self._segments, segment])
            return
        # Nearly every addition is at the end, where nothing has to be sorted.
        self._base_offsets.append(segment.base_offset)
        self._segments.append(segment)
        self._values = None
        segment.transaction_index.note_in(self._maybe_aborted)

    def remove(self, gone: Iterable[Segment]) -> None:
        names = {one.base_offset for one in gone}
        self._replace([one for one in self._segments if one.base_offset not in names])

    def remove_oldest(self, count: int) -> None:
        """Removes the first `count` segments."""
        # Without a sort: retention removes thousands of segments, a few at a time.
        del self._base_offsets[:count]
        del self._segments[:count]
        self._values = None

    def _replace(self, segments: list[Segment]) -> None:
        segments.sort(key=lambda one: one.base_offset)
        self._segments = segments
        self._base_offsets = [one.base_offset for one in segments]
        assert len(set(self._base_offsets)) == len(segments), "two segments of one base offset"
        self._values = None
        self._maybe_aborted.clear()
        for one in segments:
            one.transaction_index.note_in(self._maybe_aborted)
