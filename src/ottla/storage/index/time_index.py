"""Maps timestamps to offsets, sparsely. Format: docs/format/time-index.md

An entry (T, O) says that T is the largest timestamp up to and including offset O. Its timestamps
therefore ascend even if the records' timestamps do not.

A crash can leave missing, half-written and zero entries; recovery empties the index and refills it
from the log. Kafka's counterpart: `TimeIndex` (KIP-33).
"""

from bisect import bisect_left
from struct import Struct
from typing import Final

from ottla.storage.index.sparse_index import INT32_MAX, SparseIndex

ENTRY = Struct(
    ">"
    "q"  # timestamp in ms
    "i"  # relative offset: of the record with that timestamp, less the segment's base offset
)
assert ENTRY.size == 12

TIMESTAMP = Struct(">q")
RELATIVE_OFFSET = Struct(">i")
RELATIVE_OFFSET_AT: Final = 8

NO_TIMESTAMP: Final = -1


class TimeIndex(SparseIndex):
    """The `.timeindex` of a segment. See `SparseIndex` for opening, cutting and closing.

    Only the first entry can be zero bytes: timestamp 0 at the base offset; later timestamps are
    larger. It counts in a file of exactly one entry, which was trimmed to it, and not before free
    space. A lookup returns the base offset in both cases.
    """

    ENTRY = ENTRY
    KEY = TIMESTAMP
    FIRST_MAY_BE_ZERO = True

    __slots__ = ("_last",)

    _last: tuple[int, int]

    @property
    def last_entry(self) -> tuple[int, int]:
        """The last entry as (timestamp_ms, offset); (-1, base offset) of an empty index."""
        self._opened()
        return self._last

    @property
    def is_full(self) -> bool:
        """Whether only the slot for the segment's largest timestamp, added by a roll, is left."""
        if self._file is None:
            self._open()
        return self._entry_count >= self._max_entry_count - 1

    def append(self, timestamp_ms: int, offset: int, skip_full_check: bool = False) -> None:
        """Adds an entry unless its timestamp is the last entry's (`TimeIndex.maybeAppend`).

        A roll adds the segment's largest timestamp with `skip_full_check`; often the index has it
        already.
        """
        file = self._opened()
        count = self._entry_count
        last_timestamp_ms, last_offset = self._last
        assert skip_full_check or count < self._max_entry_count - 1, "the index is full"
        if count:
            assert offset >= last_offset, "offsets must not descend"
            assert timestamp_ms >= last_timestamp_ms, "timestamps must not descend"
        if timestamp_ms <= last_timestamp_ms:
            return
        relative = offset - self.base_offset
        assert count < self._max_entry_count, "the index has no room even for its last entry"
        assert 0 <= relative <= INT32_MAX, "the offset is too far from the base"
        if not self._is_allocated:
            self._allocate()
        file.pwrite(ENTRY.pack(timestamp_ms, relative), count * 12)
        self._entry_count = count + 1
        self._last = (timestamp_ms, offset)

    def lookup(self, timestamp_ms: int) -> tuple[int, int]:
        """The last entry at or before a timestamp, as (timestamp_ms, offset).

        If there is none, the segment must be read from its start: (-1, base offset).
        """
        if self._file is None:
            self._open()
        index = self._floor(timestamp_ms)
        if index < 0:
            return NO_TIMESTAMP, self.base_offset
        found_ms, relative = ENTRY.unpack_from(self._view, index * 12)
        return found_ms, self.base_offset + relative

    def entry(self, index: int) -> tuple[int, int]:
        """One entry, as (timestamp_ms, offset)."""
        assert 0 <= index < self.entry_count
        timestamp_ms, relative = ENTRY.unpack_from(self._view, index * 12)
        return timestamp_ms, self.base_offset + relative

    def truncate_to(self, offset: int) -> None:
        """Removes the entries at and after an offset."""
        relative = offset - self.base_offset
        self._truncate_to_count(
            bisect_left(range(self.entry_count), relative, key=self._relative_offset_at)
        )

    def _relative_offset_at(self, index: int) -> int:
        position = index * ENTRY.size + RELATIVE_OFFSET_AT
        relative: int = RELATIVE_OFFSET.unpack_from(self._view, position)[0]
        return relative

    def _check_entries(self) -> None:
        position = (self._entry_count - 1) * ENTRY.size
        first_ms, first_offset = self.entry(0)
        last_ms, last_offset = self.entry(self._entry_count - 1)
        if last_ms < first_ms:
            reason = f"the last timestamp, {last_ms}, is before the first, {first_ms}"
            raise self._corruption(position, reason)
        if last_offset < first_offset or last_offset < self.base_offset:
            reason = f"the last offset, {last_offset}, is before the first or the base offset"
            raise self._corruption(position, reason)

    def _remember_last(self) -> None:
        empty = self._entry_count == 0
        self._last = (
            (NO_TIMESTAMP, self.base_offset) if empty else self.entry(self._entry_count - 1)
        )
