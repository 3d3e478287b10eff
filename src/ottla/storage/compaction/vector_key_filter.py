"""The key filter for many records at once, with numpy, which this module imports.

A slot of the map has 24 bytes as in `OffsetMap`, with a digest of 16 bytes. The digest is not MD5,
which takes one key at a time, but multiplications and shifts over each eight bytes of a key, in two
lanes. Which records are retained does not depend on it.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import groupby, islice

import numpy as np
from numpy.typing import NDArray

from ottla.base.files import Buffer
from ottla.record.batch import Batch, RecordBatch
from ottla.record.legacy import read_legacy_records
from ottla.record.record import Record
from ottla.record.scan import Fields, RecordScan, plain_payloads
from ottla.storage.compaction.key_filter import Candidate, Retained, StoredRecords
from ottla.storage.compaction.offset_map import SLOT, capacity_of

Numbers = NDArray[np.int64]
Words = NDArray[np.uint64]
Flags = NDArray[np.bool_]

WORD = 8
LANES = (
    (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x2545F4914F6CDD1D)),
    (np.uint64(0xC2B2AE3D27D4EB4F), np.uint64(0x94D049BB133111EB), np.uint64(0xD6E8FEB86659FD93)),
)
"""Seed and two odd factors of each half of the digest."""


class _LastOffsetFilter:
    """Decides which records are retained, by the last offset of each row's key."""

    def _last_offsets(self, rows: "_Rows") -> Numbers:
        """The last offset of each row's key; -1 for an unknown or null key."""
        raise NotImplementedError

    def retain(self, candidates: Sequence[Candidate], end_offset: int) -> list[Retained]:
        retained: list[Retained] = []
        keeps = iter([one.keeps_tombstones for one in candidates])
        for rows in _runs([one.batch for one in candidates]):
            retained += self._retain(rows, list(islice(keeps, len(rows.counts))), end_offset)
        return retained

    def _retain(
        self, rows: "_Rows", keeps_tombstones: Sequence[bool], end_offset: int
    ) -> list[Retained]:
        is_keyless = rows.keys.is_null & (rows.offset < end_offset)
        stays = np.repeat(np.array(keeps_tombstones, np.bool_), rows.counts)
        keep = ~rows.keys.is_null & (rows.offset >= self._last_offsets(rows))
        keep &= stays | ~rows.is_tombstone
        keep |= rows.offset >= end_offset
        ends = np.cumsum(rows.counts)
        starts = ends - rows.counts
        kept_counts = _count(keep, starts, ends)
        tombstones = _count(keep & rows.is_tombstone, starts, ends)
        keyless = _count(is_keyless, starts, ends)
        found = []
        for number, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
            count = int(kept_counts[number])
            found.append(
                Retained(
                    records=partial(rows.records, start, keep[start:end]),
                    count=count,
                    is_whole=count == end - start,
                    has_tombstone=bool(tombstones[number]),
                    keyless_count=int(keyless[number]),
                )
            )
        return found


class OffsetFilter(_LastOffsetFilter):
    """Retains given offsets, except tombstones whose delete horizon has passed."""

    def __init__(self, offsets: Numbers) -> None:
        """`offsets` ascend."""
        self._offsets = offsets
        self.size = self.capacity = len(offsets)

    def learn(self, batches: Sequence[Batch], start_offset: int) -> None:
        raise AssertionError("the offsets are given, not learnt")

    def _last_offsets(self, rows: "_Rows") -> Numbers:
        place = np.searchsorted(self._offsets, rows.offset)
        place[place == len(self._offsets)] = 0
        stays = self._offsets[place] == rows.offset if len(self._offsets) else False
        return np.where(stays, rows.offset, np.iinfo(np.int64).max)


class VectorKeyFilter(_LastOffsetFilter):
    """Retains the same records as `PlainKeyFilter`."""

    def __init__(self, memory_bytes: int, load_factor: float) -> None:
        slot_count = max(1, memory_bytes // SLOT.size)
        self._slots = np.zeros((slot_count, 3), np.uint64)
        self._first = self._slots[:, 0]
        self._second = self._slots[:, 1]
        self._offset = self._slots.view(np.int64)[:, 2]
        self._slot_count = slot_count
        self.capacity = capacity_of(memory_bytes, load_factor)
        self.size = 0

    def learn(self, batches: Sequence[Batch], start_offset: int) -> None:
        for rows in _runs(batches):
            self._learn(rows, start_offset)

    def _learn(self, rows: "_Rows", start_offset: int) -> None:
        wanted = ~rows.keys.is_null & (rows.offset >= start_offset)
        self._put(*_digests(rows.data, rows.keys, wanted), rows.offset[wanted])

    def _last_offsets(self, rows: "_Rows") -> Numbers:
        known = ~rows.keys.is_null
        last = np.full(len(rows.offset), -1, np.int64)
        last[known] = self._get(*_digests(rows.data, rows.keys, known))
        return last

    def _slots_of(self, first: Words) -> Numbers:
        """The slot at which the search for each key begins."""
        # The high 32 bits of the first half of the digest, scaled to the number of slots.
        high = first >> np.uint64(32)
        return ((high * np.uint64(self._slot_count)) >> np.uint64(32)).astype(np.int64)

    def _put(self, first: Words, second: Words, offset: Numbers) -> None:
        slot = self._slots_of(first)
        while len(slot):
            empty = np.flatnonzero(self._offset[slot] == 0)
            if len(empty):
                # Of several keys for one slot, the first takes it, and the others try the next.
                wanted, winners = np.unique(slot[empty], return_index=True)
                rows = empty[winners]
                self._first[wanted] = first[rows]
                self._second[wanted] = second[rows]
                self._offset[wanted] = offset[rows] + 1
                self.size += len(wanted)
            same = (self._first[slot] == first) & (self._second[slot] == second)
            np.maximum.at(self._offset, slot[same], offset[same] + 1)
            left = ~same
            slot, first, second, offset = slot[left], first[left], second[left], offset[left]
            slot = (slot + 1) % self._slot_count

    def _get(self, first: Words, second: Words) -> Numbers:
        found = np.full(len(first), -1, np.int64)
        rows = np.arange(len(first))
        slot = self._slots_of(first)
        while len(rows):
            offset = self._offset[slot]
            same = (self._first[slot] == first) & (self._second[slot] == second) & (offset != 0)
            found[rows[same]] = offset[same] - 1
            left = ~same & (offset != 0)
            rows, slot, first, second = rows[left], slot[left], first[left], second[left]
            slot = (slot + 1) % self._slot_count
        return found


def _count(flags: Flags, starts: Numbers, ends: Numbers) -> Numbers:
    """The number of set flags in each range."""
    sums = np.zeros(len(flags) + 1, np.int64)
    np.cumsum(flags, out=sums[1:])
    found: Numbers = sums[ends] - sums[starts]
    return found


class _Rows:
    """The records of some batches, all v2 or all of old formats."""

    def __init__(self, data: Buffer, offset: Numbers, counts: Numbers, keys: Fields) -> None:
        self.data = data
        self.offset = offset
        self.counts = counts
        self.keys = keys
        self.is_tombstone: Flags = np.zeros(len(offset), np.bool_)

    def records(self, start: int, retained: Flags) -> StoredRecords | list[Record]:
        """The retained rows, where `retained` has a flag for each row from `start` on."""
        raise NotImplementedError


class _V2Rows(_Rows):
    places: Numbers
    """Starts and ends of the records in `data`, shape (2, rows)."""

    def records(self, start: int, retained: Flags) -> StoredRecords:
        starts, ends = self.places[:, start : start + len(retained)][:, retained]
        first = int(starts[0])
        places = list(zip((starts - first).tolist(), (ends - first).tolist(), strict=True))
        return StoredRecords(bytes(self.data[first : int(ends[-1])]), places)


class _OldRows(_Rows):
    found: list[Record]

    def records(self, start: int, retained: Flags) -> list[Record]:
        return [self.found[start + row] for row in np.flatnonzero(retained).tolist()]


def _runs(batches: Sequence[Batch]) -> Iterator[_Rows]:
    """Rows of consecutive batches that are all v2 or all of old formats."""
    for is_v2, run in groupby(batches, lambda one: isinstance(one, RecordBatch)):
        some = list(run)
        yield _v2_rows(some) if is_v2 else _old_rows(some)  # type: ignore[arg-type]


def _v2_rows(batches: Sequence[RecordBatch]) -> _Rows:
    buffer, payloads = plain_payloads(batches)
    counts = np.array([one.record_count for one in batches], np.int64)
    scan = RecordScan.begin(buffer, payloads)
    _, offset_delta = scan.deltas()
    keys = scan.fields()
    values = scan.fields()
    base = np.repeat(np.array([one.base_offset for one in batches], np.int64), counts)
    rows = _V2Rows(buffer, base + offset_delta, counts, keys)
    rows.is_tombstone = values.is_null
    rows.places = np.stack([scan.start, scan.end])
    return rows


def _old_rows(batches: Sequence[Batch]) -> _Rows:
    found = [list(read_legacy_records(one)) for one in batches]
    records = [record for some in found for record in some]
    sizes = np.array([len(one.key or b"") for one in records], np.int64)
    end = np.cumsum(sizes)
    keys = Fields(
        start=end - sizes,
        end=end,
        is_null=np.array([one.key is None for one in records], np.bool_),
    )
    rows = _OldRows(
        b"".join(one.key or b"" for one in records),
        np.array([one.offset for one in records], np.int64),
        np.array([len(some) for some in found], np.int64),
        keys,
    )
    rows.is_tombstone = np.array([one.value is None for one in records], np.bool_)
    rows.found = records
    return rows


def key_digests(batches: Sequence[Batch]) -> Iterator[tuple[Words, Words, Numbers]]:
    """Both halves of the key's digest, and the offset, of the records with a key."""
    for rows in _runs(batches):
        wanted = ~rows.keys.is_null
        yield *_digests(rows.data, rows.keys, wanted), rows.offset[wanted]


def _digests(data: Buffer, keys: Fields, wanted: Flags) -> tuple[Words, Words]:
    """Both halves of the digest of each wanted key."""
    start = keys.start[wanted]
    size = keys.end[wanted] - start
    padded = np.frombuffer(data, np.uint8)
    # Padding for the last word, which may reach beyond the data.
    tail = np.concatenate([padded[-WORD:], np.zeros(WORD, np.uint8)])
    halves = [np.full(len(start), lane[0]) ^ size.astype(np.uint64) for lane in LANES]
    left = np.arange(len(start))
    step = 0
    while True:
        more = size[left] > step
        left = left[more]
        if not len(left):
            break
        word = _words_at(padded, tail, start[left] + step, size[left] - step)
        for half, (_, first, second) in zip(halves, LANES, strict=True):
            mixed = (half[left] ^ word) * first
            mixed ^= mixed >> np.uint64(32)
            mixed *= second
            mixed ^= mixed >> np.uint64(29)
            half[left] = mixed
        step += WORD
    for half, (_, first, second) in zip(halves, LANES, strict=True):
        half ^= half >> np.uint64(31)
        half *= second
        half ^= half >> np.uint64(30)
        half *= first
        half ^= half >> np.uint64(33)
    return halves[0], halves[1]


def _words_at(
    data: NDArray[np.uint8], tail: NDArray[np.uint8], position: Numbers, size: Numbers
) -> Words:
    """The next `size` bytes, at most eight, at each position as a little-endian word."""
    count = len(data) - WORD + 1
    if count > 0:
        words = np.ndarray((count,), np.dtype("<u8"), data, strides=(1,))
        near_end = position >= count
        found = words[np.where(near_end, 0, position)]
    else:
        near_end = np.ones(len(position), np.bool_)
        found = np.zeros(len(position), np.uint64)
    if near_end.any():
        ends = np.ndarray((len(tail) - WORD + 1,), np.dtype("<u8"), tail, strides=(1,))
        found[near_end] = ends[position[near_end] - max(0, len(data) - WORD)]
    kept = np.minimum(size, WORD).astype(np.uint64) * np.uint64(8)
    mask = np.where(
        kept >= np.uint64(64), ~np.uint64(0), (np.uint64(1) << kept % np.uint64(64)) - np.uint64(1)
    )
    masked: Words = np.bitwise_and(found, mask, dtype=np.uint64)
    return masked
