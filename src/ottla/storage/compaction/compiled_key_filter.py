"""The key filter as loops that mypyc compiles; it is only used if compiled.

A slot of the map has 24 bytes as in `OffsetMap`, with a digest of 16 bytes. The digest is not MD5,
but multiplications and shifts over each eight bytes of a key, in two lanes. Which records are
retained does not depend on it.
"""

from collections.abc import Callable, Sequence
from functools import partial
from types import FunctionType
from typing import TYPE_CHECKING, Final

from ottla.codec.compression import Compression
from ottla.record.batch import Batch, InvalidBatchError, RecordBatch
from ottla.record.legacy import read_legacy_records
from ottla.record.record import Record, unpacked_payload
from ottla.record.walk import (
    ALL_COLUMNS,
    END,
    KEY_END,
    KEY_START,
    OFFSET_DELTA,
    REASONS,
    START,
    VALUE_START,
    find_fields,
    new_columns,
)
from ottla.storage.compaction.key_filter import Candidate, Retained, StoredRecords
from ottla.storage.compaction.offset_map import SLOT, capacity_of

if TYPE_CHECKING:
    from librt.strings import read_i64_le
    from librt.vecs import vec
    from mypy_extensions import i64

MIN_RECORD_SIZE: Final = 7

SLOT_SIZE: Final = 3
"""Numbers per slot: two of the digest, and offset + 1. Entries of `sought` have the first slot of
the search in place of the offset."""

# Seed and two odd factors of each half of the digest. They fit into mypyc's tagged integers, so
# that the constants are not boxed.
SEED: Final = 0x1E3779B97F4A7C15
FACTOR: Final = 0x3F58476D1CE4E5B9
LAST_FACTOR: Final = 0x2545F4914F6CDD1D
OTHER_SEED: Final = 0x02B2AE3D27D4EB4F
OTHER_FACTOR: Final = 0x14D049BB133111EB
OTHER_LAST_FACTOR: Final = 0x16E8FEB86659FD93
LOW_35: Final = 0x7FFFFFFFF
LOW_32: Final = 0xFFFFFFFF


class _Rows:
    """The records of one batch: the positions of their fields in `data`, by `find_fields`."""

    def __init__(self) -> None:
        self.found: list[Record] = []
        self.data: bytes = b""
        self.base: i64 = 0
        self.count: i64 = 0
        self.width: i64 = 0
        self.columns: vec[i64] = vec[i64]()
        self.sought: vec[i64] = vec[i64]()

    def take(self, batch: Batch) -> None:
        """Loads the records of a batch; raises `InvalidBatchError`."""
        # The vectors are reused for all batches, so that they stay in the processor's cache.
        if not isinstance(batch, RecordBatch):
            self._take_old(list(read_legacy_records(batch)))
            return
        data = bytes(unpacked_payload(batch))
        if not 0 <= MIN_RECORD_SIZE * batch.record_count <= len(data):
            raise InvalidBatchError("a batch has more records than fit into it")
        self._begin(data, batch.base_offset, batch.record_count)
        place = (0, self.width, ALL_COLUMNS)
        reason = find_fields(data, (0, len(data)), self.count, 0, place, self.columns)
        if reason:
            raise InvalidBatchError(f"a batch has a record that is wrong: {REASONS[reason]}")

    def _begin(self, data: bytes, base: "i64", count: "i64") -> None:
        self.data = data
        self.base = base
        self.count = count
        if count > self.width:
            self.width = count
            self.columns = new_columns(count)
            self.sought = vec[i64]([0] * (SLOT_SIZE * count))

    def _take_old(self, records: list[Record]) -> None:
        self.found = records
        self._begin(b"".join([one.key or b"" for one in records]), 0, len(records))
        columns = self.columns
        width = self.width
        position: i64 = 0
        for number, one in enumerate(records):
            row: i64 = number
            key, value = one.key, one.value
            columns[OFFSET_DELTA * width + row] = one.offset
            columns[KEY_START * width + row] = -1 if key is None else position
            position += len(key or b"")
            columns[KEY_END * width + row] = position
            columns[VALUE_START * width + row] = -1 if value is None else 0


class CompiledKeyFilter:
    """Retains the same records as `PlainKeyFilter`."""

    def __init__(self, memory_bytes: int, load_factor: float) -> None:
        self._slot_count: i64 = max(1, memory_bytes // SLOT.size)
        self._slots: vec[i64] = vec[i64]([0] * (SLOT_SIZE * self._slot_count))
        self._rows = _Rows()
        self._seen: i64 = 0
        self.capacity: int = capacity_of(memory_bytes, load_factor)
        self.size: int = 0

    def learn(self, batches: Sequence[Batch], start_offset: int) -> None:
        for batch in batches:
            self._rows.take(batch)
            self._learn(start_offset)

    def retain(self, candidates: Sequence[Candidate], end_offset: int) -> list[Retained]:
        return [self._retain(one, end_offset) for one in candidates]

    def _learn(self, start_offset: "i64") -> None:
        rows, slots = self._rows, self._slots
        self._seek()
        columns, sought, width = rows.columns, rows.sought, rows.width
        row: i64 = 0
        while row < rows.count:
            offset: i64 = rows.base + columns[OFFSET_DELTA * width + row]
            if columns[KEY_START * width + row] >= 0 and offset >= start_offset:
                at = SLOT_SIZE * row
                slot = _slot_of(slots, sought, at)
                if slots[slot + 2] == 0:
                    slots[slot] = sought[at]
                    slots[slot + 1] = sought[at + 1]
                    self.size += 1
                slots[slot + 2] = offset + 1
            row += 1

    def _retain(self, candidate: Candidate, end_offset: "i64") -> Retained:
        batch = candidate.batch
        keeps_tombstones: bool = candidate.keeps_tombstones
        rows, slots = self._rows, self._slots
        rows.take(batch)
        self._seek()
        columns, sought, width = rows.columns, rows.sought, rows.width
        kept: list[int] = []
        keyless: i64 = 0
        has_tombstone = False
        row: i64 = 0
        while row < rows.count:
            offset: i64 = rows.base + columns[OFFSET_DELTA * width + row]
            is_tombstone = columns[VALUE_START * width + row] < 0
            stays = offset >= end_offset
            if not stays:
                if columns[KEY_START * width + row] < 0:
                    keyless += 1
                elif keeps_tombstones or not is_tombstone:
                    stays = offset + 1 >= slots[_slot_of(slots, sought, SLOT_SIZE * row) + 2]
            if stays:
                kept.append(row)
                has_tombstone = has_tombstone or is_tombstone
            row += 1
        return Retained(
            records=self._records(batch, kept),
            count=len(kept),
            is_whole=len(kept) == rows.count,
            has_tombstone=has_tombstone,
            keyless_count=keyless,
        )

    def _records(self, batch: Batch, kept: list[int]) -> Callable[[], StoredRecords | list[Record]]:
        rows = self._rows
        if not isinstance(batch, RecordBatch):
            found = rows.found
            return partial(list, [found[row] for row in kept])
        columns, width = rows.columns, rows.width
        places: list[tuple[int, int]] = []
        for one in kept:
            row: i64 = one
            places.append((columns[START * width + row], columns[END * width + row]))
        # Uncompressed records are copied from the batch later, as keeping all of `data` would not
        # stay in the processor's cache.
        data = None if batch.compression is Compression.NONE else rows.data
        return partial(_stored, batch, places, data)

    def _seek(self) -> None:
        """Computes the digest of each key, and the slot at which its search begins."""
        # Then reads all these slots, so that the processor loads them from memory in parallel.
        rows, slots = self._rows, self._slots
        data, columns, sought, width = rows.data, rows.columns, rows.sought, rows.width
        slot_count = self._slot_count
        seen: i64 = 0
        row: i64 = 0
        while row < rows.count:
            start = columns[KEY_START * width + row]
            if start >= 0:
                first, second = _digest(data, start, columns[KEY_END * width + row])
                at = SLOT_SIZE * row
                sought[at] = first
                sought[at + 1] = second
                sought[at + 2] = SLOT_SIZE * ((((first >> 32) & LOW_32) * slot_count) >> 32)
            row += 1
        row = 0
        while row < rows.count:
            if columns[KEY_START * width + row] >= 0:
                seen ^= slots[sought[SLOT_SIZE * row + 2] + 2]
            row += 1
        self._seen = seen


def _slot_of(slots: "vec[i64]", sought: "vec[i64]", at: "i64") -> "i64":
    """The slot that holds a key, or the free slot for it."""
    first = sought[at]
    second = sought[at + 1]
    slot = sought[at + 2]
    while slots[slot + 2] != 0 and (slots[slot] != first or slots[slot + 1] != second):
        slot += SLOT_SIZE
        if slot == len(slots):
            slot = 0
    return slot


def _digest(data: bytes, start: "i64", end: "i64") -> "tuple[i64, i64]":
    one: i64 = SEED
    two: i64 = OTHER_SEED
    one ^= end - start
    two ^= end - start
    last: i64 = len(data) - 8
    while start < end:
        word: i64 = 0
        left: i64 = end - start
        if start <= last:
            word = read_i64_le(data, start)
        else:
            for index in range(left):
                byte: i64 = data[start + index]
                word |= byte << (index << 3)
        if left < 8:
            word <<= 64 - (left << 3)
        one = (one ^ word) * FACTOR
        one ^= (one >> 32) & LOW_32
        one *= LAST_FACTOR
        one ^= (one >> 29) & LOW_35
        two = (two ^ word) * OTHER_FACTOR
        two ^= (two >> 32) & LOW_32
        two *= OTHER_LAST_FACTOR
        two ^= (two >> 29) & LOW_35
        start += 8
    one ^= (one >> 31) & 0x1FFFFFFFF
    one *= LAST_FACTOR
    one ^= (one >> 30) & 0x3FFFFFFFF
    one *= FACTOR
    two ^= (two >> 31) & 0x1FFFFFFFF
    two *= OTHER_LAST_FACTOR
    two ^= (two >> 30) & 0x3FFFFFFFF
    two *= OTHER_FACTOR
    return one ^ ((one >> 33) & 0x7FFFFFFF), two ^ ((two >> 33) & 0x7FFFFFFF)


def _stored(batch: RecordBatch, places: list[tuple[int, int]], data: bytes | None) -> StoredRecords:
    return StoredRecords(bytes(batch.payload) if data is None else data, places)


IS_COMPILED: Final[bool] = not isinstance(_digest, FunctionType)
