"""Logs index entries for offsets in a gap between a segment's batches.

Compaction leaves no index entries for offsets that it removed. If there is one, either a batch's
base offset, which no checksum covers, or the entry is damaged. Nothing shows which, so nothing is
refused or rebuilt. Kafka does not check.
"""

import logging
from bisect import bisect_left
from typing import TYPE_CHECKING

from ottla.storage.index.offset_index import OffsetIndex

if TYPE_CHECKING:
    from ottla.storage.index.time_index import TimeIndex
    from ottla.storage.segment.segment import Segment
from ottla.storage.segment.segment_view import Trust

logger = logging.getLogger(__name__)


class GapEntries:
    """The check for one walk over a segment, called for its gaps in ascending order."""

    __slots__ = ("_cursors", "_segment")

    def __init__(self, segment: "Segment") -> None:
        self._segment = segment
        self._cursors: list[_Cursor] | None = None

    def check_gap(self, first_offset: int, next_offset: int, position: int) -> None:
        """Logs the first entry for an offset of a gap that ends before the batch at `position`."""
        segment = self._segment
        if segment.trust is Trust.OURS:
            # Indexes that were built from the log agree with it.
            return
        if self._cursors is None:
            indexes = segment.offset_index, segment.time_index
            self._cursors = [_Cursor(index, first_offset) for index in indexes]
        for cursor in self._cursors:
            offset = cursor.first_from(first_offset)
            if offset is not None and offset < next_offset:
                logger.error(
                    "%s at byte %d: offsets %d to %d are missing, but %s has an entry for %d; "
                    "one of the two is damaged",
                    segment.log.path, position, first_offset, next_offset - 1,
                    cursor.path, offset,
                )  # fmt: skip


class _Cursor:
    """A position in an index that only moves forward."""

    __slots__ = ("_column", "_index", "_number")

    def __init__(self, index: "OffsetIndex | TimeIndex", first_offset: int) -> None:
        self._index = index
        self._column = 0 if isinstance(index, OffsetIndex) else 1
        self._number = bisect_left(range(index.entry_count), first_offset, key=self._offset)

    @property
    def path(self) -> str:
        return self._index.path

    def first_from(self, offset: int) -> int | None:
        """The first indexed offset at or after `offset`."""
        while self._number < self._index.entry_count:
            found = self._offset(self._number)
            if found >= offset:
                return found
            self._number += 1
        return None

    def _offset(self, number: int) -> int:
        return self._index.entry(number)[self._column]
