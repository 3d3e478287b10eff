"""Maps offsets to positions in the log file, sparsely. Format: docs/format/offset-index.md

An entry maps a batch's last offset to its position. One is added for about every
`index.interval.bytes` of log, so a reader scans at most that much from what `lookup` returns.

A crash can leave missing, half-written and zero entries; recovery empties the index and refills it
from the log. Kafka's counterpart: `OffsetIndex`.
"""

from bisect import bisect_left
from struct import Struct

from ottla.storage.index.sparse_index import INT32_MAX, SparseIndex

ENTRY = Struct(
    ">"
    "i"  # relative offset: the batch's last offset, less the segment's base offset
    "i"  # position of the batch's first byte in the log file
)
assert ENTRY.size == 8

RELATIVE_OFFSET = Struct(">i")


class OffsetIndex(SparseIndex):
    """The `.index` of a segment. See `SparseIndex` for opening, cutting and closing.

    No entry is all zero bytes: an entry is due only after `index.interval.bytes` of log, never for
    the segment's first batch, so every position is above zero.
    """

    ENTRY = ENTRY
    KEY = RELATIVE_OFFSET
    FIRST_MAY_BE_ZERO = False

    __slots__ = ("_last_offset",)

    _last_offset: int

    @property
    def last_offset(self) -> int:
        """The offset of the last entry; the base offset if the index is empty, as in Kafka."""
        self._opened()
        return self._last_offset

    def append(self, offset: int, position: int) -> None:
        """Adds an entry; its offset must be larger than the last entry's."""
        file = self._opened()
        count = self._entry_count
        relative = offset - self.base_offset
        assert count < self._max_entry_count, "the index is full: its segment should have rolled"
        assert offset > self._last_offset or count == 0, "offsets must ascend"
        assert 0 <= relative <= INT32_MAX, "the offset is too far from the base"
        assert 0 <= position <= INT32_MAX, "the position does not fit 4 bytes"
        assert position or relative, "an entry of zero bytes would not be found again"
        if not self._is_allocated:
            self._allocate()
        file.pwrite(ENTRY.pack(relative, position), count * 8)
        self._entry_count = count + 1
        self._last_offset = offset

    def lookup(self, target: int) -> tuple[int, int]:
        """The last entry at or before an offset, as (offset, position).

        If there is none, the segment must be read from its start: (base offset, 0).
        """
        if self._file is None:
            self._open()
        index = self._floor(target - self.base_offset)
        if index < 0:
            return self.base_offset, 0
        relative, position = ENTRY.unpack_from(self._view, index * 8)
        return self.base_offset + relative, position

    def first_at_or_after(self, position: int) -> int | None:
        """The offset of the first entry whose batch begins at a position or after it.

        Kafka: `OffsetIndex.fetchUpperBoundOffset`.
        """
        index = bisect_left(range(self.entry_count), position, key=self._position_at)
        return self.entry(index)[0] if index < self.entry_count else None

    def position_before(self, position: int) -> int:
        """The position of the last entry before a position; 0, the segment's start, if none."""
        index = bisect_left(range(self.entry_count), position, key=self._position_at) - 1
        return self.entry(index)[1] if index >= 0 else 0

    def _position_at(self, index: int) -> int:
        return self.entry(index)[1]

    def entry(self, index: int) -> tuple[int, int]:
        """One entry, as (offset, position)."""
        assert 0 <= index < self.entry_count
        relative, position = ENTRY.unpack_from(self._view, index * 8)
        return self.base_offset + relative, position

    def truncate_to(self, offset: int) -> None:
        """Removes the entries at and after an offset."""
        self._opened()
        self._truncate_to_count(self._floor(offset - self.base_offset - 1) + 1)

    def _check_entries(self) -> None:
        position = (self._entry_count - 1) * ENTRY.size
        last_offset, last_position = self.entry(self._entry_count - 1)
        if last_offset < self.entry(0)[0] or last_offset < self.base_offset:
            reason = f"the last offset, {last_offset}, is before the first or the base offset"
            raise self._corruption(position, reason)
        if last_position < 0:
            raise self._corruption(position, f"an entry points at position {last_position}")

    def _remember_last(self) -> None:
        empty = self._entry_count == 0
        self._last_offset = self.base_offset if empty else self.entry(self._entry_count - 1)[0]
