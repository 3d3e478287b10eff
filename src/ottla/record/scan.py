"""Finds the fields of many v2 records at once, as numpy arrays of positions.

The position of a record is only known once the record before it was measured. So the sizes of
records are followed first: in lock step, record k of all batches at once, and one by one if too few
batches have that many records. All other fields are then read for all records together. This module
imports numpy; `columns` imports it when it is called.
"""

from collections.abc import Sequence
from itertools import accumulate
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ottla.base.files import Buffer
from ottla.base.values import dataclass
from ottla.codec.compression import Compression
from ottla.codec.varint import MAX_VARINT_SIZE, MAX_VARLONG_SIZE
from ottla.record import walk
from ottla.record.batch import InvalidBatchError, RecordBatch
from ottla.record.layout import HEADER_SIZE
from ottla.record.record import unpacked_payload

Positions = NDArray[np.int64]
Data = NDArray[np.uint8]

REASONS: Final = {
    walk.CUT_SHORT: "a record is cut short",
    walk.DISAGREES: "a batch's size and the size of its records disagree",
    walk.TOO_LONG: "a varint is too long",
}

MIN_RECORD_SIZE: Final = 7
"""One byte each for size, attributes, both deltas, key size, value size and header count."""

MAX_SCAN_SIZE: Final = 2**31 - 1
"""The most bytes in a binary column of Arrow, whose offsets have 32 bits."""

MIN_LOCK_STEP_WIDTH: Final = 100
"""With fewer batches at once, a step of numpy takes longer than a plain loop (measured)."""

_WORD: Final = np.arange(1 << 16, dtype=np.int64)
_UNSIGNED: Final = np.where(_WORD & 0x80, _WORD & 0x7F | (_WORD >> 8 & 0x7F) << 7, _WORD & 0x7F)
NUMBERS: Final = (_UNSIGNED >> 1) ^ -(_UNSIGNED & 1)
SIZES: Final = np.where(_WORD & 0x80, np.where(_WORD & 0x8000, 3, 2), 1).astype(np.uint8)
"""By a word of two bytes: the varint at its start, and the varint's size, 3 for more than two."""

RECORD_SIZES: Final = np.where((SIZES < 3) & (NUMBERS >= 0), SIZES + NUMBERS, 0)
"""By a word of two bytes: the size of the record that it begins; 0 from 8 KiB, or if invalid."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Payloads:
    """The bounds of each batch's decompressed records in the scanned bytes, and their number."""

    start: Positions
    end: Positions
    record_count: Positions


def plain_payloads(batches: Sequence[RecordBatch]) -> tuple[Buffer, Payloads]:
    """The decompressed records of all batches in one buffer.

    It is the buffer of the batches if they have one, and none is compressed. Raises `ValueError`
    for more bytes than fit into one Arrow column.
    """
    buffer: Buffer
    first, last = batches[0], batches[-1]
    is_one = all(one.buffer is first.buffer for one in batches)
    if is_one and all(one.compression is Compression.NONE for one in batches):
        buffer = memoryview(first.buffer)[first.position : last.position + last.size]
        places = [(one.position + HEADER_SIZE, one.position + one.size) for one in batches]
        shift = first.position
    else:
        pieces = [unpacked_payload(one) for one in batches]
        buffer = b"".join(pieces)
        ends = list(accumulate(map(len, pieces)))
        places = list(zip([0, *ends], ends, strict=False))
        shift = 0
    if len(buffer) > MAX_SCAN_SIZE:
        raise ValueError(f"{len(buffer)} bytes are too many for one Arrow column")
    bounds = np.array(places, np.int64) - shift
    counts = np.array([one.record_count for one in batches], np.int64)
    return buffer, Payloads(start=bounds[:, 0], end=bounds[:, 1], record_count=counts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fields:
    """The positions of one field of all records. A null field has no bytes."""

    start: Positions
    end: Positions
    is_null: NDArray[np.bool_]


@dataclass(slots=True)
class RecordScan:
    """The records of several payloads, in order, read field by field.

    `start` is the position of each record, `position` that of its next unread field. Rows can be
    dropped on the way; unread fields are not checked. All methods raise `InvalidBatchError`.
    """

    data: Data
    start: Positions
    position: Positions
    end: Positions

    @staticmethod
    def begin(buffer: Buffer, payloads: Payloads, wanted: int = walk.ALL_COLUMNS) -> "RecordScan":
        """`wanted` are columns of `walk`, as bits; others may be left out."""
        data = np.frombuffer(buffer, dtype=np.uint8)
        if walk.IS_COMPILED:
            return _CompiledScan.of(data, payloads, wanted)
        start, end = _follow_sizes(data, payloads)
        position = read_varints(data, start, MAX_VARINT_SIZE)[1]
        return RecordScan(data, start, position, end)

    def deltas(self) -> tuple[Positions, Positions]:
        """The timestamp and offset deltas; must be read first."""
        timestamp_delta, position = read_varints(self.data, self.position + 1, MAX_VARLONG_SIZE)
        offset_delta, position = read_varints(self.data, position, MAX_VARINT_SIZE)
        self._advance(position)
        return timestamp_delta, offset_delta

    def keep(self, rows: NDArray[np.bool_]) -> None:
        self.start = self.start[rows]
        self.position = self.position[rows]
        self.end = self.end[rows]

    def fields(self) -> Fields:
        """The next field: the keys, and after them the values."""
        found = read_fields(self.data, self.position)
        self._advance(found.end)
        return found

    def headers(self) -> tuple[Positions, Fields, Fields]:
        """The header count of each record, and all names and values in order; must be read last."""
        # If no record has headers, as usual, each has one byte left, which is 0.
        if (self.end - self.position == 1).all() and not self.data[self.position].any():
            return np.zeros(len(self.end), np.int64), _empty_fields(0), _empty_fields(0)
        counts, position = read_varints(self.data, self.position, MAX_VARINT_SIZE)
        # Each header has at least two bytes: a wrong count must not allocate memory.
        if ((counts < 0) | (counts * 2 > self.end - position)).any():
            raise InvalidBatchError("a record has a larger header count than fits into it")
        first = np.cumsum(counts) - counts
        total = int(counts.sum())
        names = _empty_fields(total)
        values = _empty_fields(total)
        for index in range(int(counts.max(initial=0))):
            rows = np.flatnonzero(counts > index)
            slots = first[rows] + index
            position[rows] = _read_into(names, slots, self.data, position[rows])
            position[rows] = _read_into(values, slots, self.data, position[rows])
        if names.is_null.any():
            raise InvalidBatchError("a header has no name")
        if (position != self.end).any():
            raise InvalidBatchError("a record's size and content disagree")
        return counts, names, values

    def _advance(self, position: Positions) -> None:
        if (position > self.end).any():
            raise InvalidBatchError("a record is cut short")
        self.position = position


@dataclass(slots=True)
class _CompiledScan(RecordScan):
    """A scan whose fields were all found in one compiled loop."""

    columns: list[Positions]
    """By column of `walk`; those that are not wanted are empty."""
    _next: int = walk.KEY_START

    @classmethod
    def of(cls, data: Data, payloads: Payloads, wanted: int) -> "_CompiledScan":
        _check_counts(payloads)
        found, reason = walk.find_all_fields(
            *_bytes_of(data),
            payloads.start.tolist(),
            payloads.end.tolist(),
            payloads.record_count.tolist(),
            wanted,
        )
        if reason:
            raise InvalidBatchError(REASONS[reason])
        rows = iter(np.frombuffer(memoryview(found), np.int64).reshape(wanted.bit_count(), -1))
        columns = [next(rows) if wanted >> one & 1 else _UNREAD for one in range(walk.COLUMN_COUNT)]
        return cls(data, columns[walk.START], columns[walk.END], columns[walk.END], columns)

    def deltas(self) -> tuple[Positions, Positions]:
        return self.columns[walk.TIMESTAMP_DELTA], self.columns[walk.OFFSET_DELTA]

    def keep(self, rows: NDArray[np.bool_]) -> None:
        self.columns = [one[rows] if len(one) else one for one in self.columns]
        self.start, self.end = self.columns[walk.START], self.columns[walk.END]

    def fields(self) -> Fields:
        start, end = self.columns[self._next : self._next + 2]
        self._next += 2
        self.position = end
        is_null = start < 0
        if is_null.any():
            start = np.where(is_null, end, start)
        return Fields(start=start, end=end, is_null=is_null)


_UNREAD: Final = np.empty(0, np.int64)


def _bytes_of(data: Data) -> tuple[Buffer, int]:
    """The bytes that an array is a part of, and where it begins in them; or its own view."""
    whole = data.base.obj if isinstance(data.base, memoryview) else data.base
    if not isinstance(whole, bytes) or not whole:
        return data.data, 0
    return whole, data.ctypes.data - np.frombuffer(whole, np.uint8).ctypes.data


def read_varints(data: Data, position: Positions, max_size: int) -> tuple[Positions, Positions]:
    """The zig-zag varint at each position, and the positions after them."""
    word = _words_at(data, position)
    size = SIZES[word]
    value, end = NUMBERS[word], position + size
    longer = np.flatnonzero(size > 2)
    if longer.size:
        value[longer], end[longer] = _read_long_varints(data, position[longer], max_size)
    return value, end


def _words_at(data: Data, position: Positions) -> NDArray[np.uint16]:
    """The byte at each position and the next one as a little-endian word, 0 after the last byte."""
    count = len(data) - 1
    words = _words(data)
    try:
        return words[position]
    except IndexError:
        inside = position < count
        if (position > count).any():
            raise InvalidBatchError("a record is cut short") from None
        found = np.empty(len(position), np.uint16)
        found[inside] = words[position[inside]]
        found[~inside] = data[-1]
        return found


def _words(data: Data) -> NDArray[np.uint16]:
    """Each byte but the last, with the next one, as a little-endian word."""
    return np.ndarray((max(len(data) - 1, 0),), "<u2", data, strides=(1,))


def _read_long_varints(
    data: Data, position: Positions, max_size: int
) -> tuple[Positions, Positions]:
    value = np.zeros(len(position), np.uint64)
    end = position.copy()
    left = np.arange(len(position))
    for shift in range(0, 7 * max_size, 7):
        byte = _bytes_at(data, end[left])
        value[left] |= (byte & 0x7F).astype(np.uint64) << np.uint64(shift)
        end[left] += 1
        left = left[byte > 0x7F]
        if not left.size:
            break
    else:
        raise InvalidBatchError("a varint is too long")
    if max_size == MAX_VARINT_SIZE:
        value &= np.uint64(0xFFFFFFFF)
    signed = (value >> np.uint64(1)).astype(np.int64) ^ -(value & np.uint64(1)).astype(np.int64)
    return signed, end


def _bytes_at(data: Data, position: Positions) -> Data:
    try:
        return data[position]
    except IndexError as error:
        raise InvalidBatchError("a record is cut short") from error


def read_fields(data: Data, position: Positions) -> Fields:
    """The field at each position: a size, -1 for null, and its bytes."""
    size, start = read_varints(data, position, MAX_VARINT_SIZE)
    return Fields(start=start, end=start + np.maximum(size, 0), is_null=size < 0)


def _empty_fields(count: int) -> Fields:
    return Fields(
        start=np.empty(count, np.int64),
        end=np.empty(count, np.int64),
        is_null=np.empty(count, np.bool_),
    )


def _read_into(fields: Fields, slots: Positions, data: Data, position: Positions) -> Positions:
    found = read_fields(data, position)
    fields.start[slots] = found.start
    fields.end[slots] = found.end
    fields.is_null[slots] = found.is_null
    return found.end


def _follow_sizes(data: Data, payloads: Payloads) -> tuple[Positions, Positions]:
    """The start and end of every record."""
    _check_counts(payloads)
    counts, starts, stops = payloads.record_count, payloads.start, payloads.end
    first = np.cumsum(counts) - counts
    ends = np.empty(int(counts.sum()), np.int64)
    reached, steps = _lock_step(data, starts, counts, ends)
    for number in np.flatnonzero(reached != stops).tolist():
        done, where = (steps, reached[number]) if reached[number] >= 0 else (0, starts[number])
        rows = ends[first[number] : first[number] + counts[number]][done:]
        rows[:] = _one_by_one(data[where : stops[number]], len(rows)) + where
        if not len(rows) or rows[-1] != stops[number]:
            raise InvalidBatchError("a batch's size and the size of its records disagree")
    begins = np.empty_like(ends)
    begins[1:] = ends[:-1]
    has_records = counts > 0
    begins[first[has_records]] = starts[has_records]
    return begins, ends


def _check_counts(payloads: Payloads) -> None:
    """Raises `InvalidBatchError` for a record count that does not fit into the payload."""
    # Before memory is allocated by that count.
    sizes, counts = payloads.end - payloads.start, payloads.record_count
    wrong = np.flatnonzero((counts < 0) | (counts * MIN_RECORD_SIZE > sizes))
    if wrong.size:
        count, size = counts[wrong[0]], sizes[wrong[0]]
        raise InvalidBatchError(f"{count} records do not fit into {size} bytes")


def _lock_step(
    data: Data, starts: Positions, counts: Positions, ends: Positions
) -> tuple[Positions, int]:
    """Measures record k of all batches at once, while enough batches have one.

    Returns the position reached in each batch, -1 after a record that is invalid or too large for
    `RECORD_SIZES`, and the number of steps.
    """
    steps = 0
    if len(counts) >= MIN_LOCK_STEP_WIDTH:
        steps = int(np.partition(counts, -MIN_LOCK_STEP_WIDTH)[-MIN_LOCK_STEP_WIDTH])
    # Batches with the most records first, so that the batches with a record k are at the front.
    order = np.argsort(-counts, kind="stable")
    widths = len(counts) - np.searchsorted(counts[order][::-1], np.arange(steps), side="right")
    position, slots = starts[order], (np.cumsum(counts) - counts)[order]
    size = np.ones(len(counts), np.int64)
    words = _words(data)
    try:
        for width in widths.tolist():
            size[:width] = RECORD_SIZES[words[position[:width]]]
            position[:width] += size[:width]
            ends[slots[:width]] = position[:width]
            slots[:width] += 1
    except IndexError as error:
        raise InvalidBatchError("a record is cut short") from error
    reached = np.empty_like(position)
    reached[order] = np.where(size > 0, position, -1)
    return reached, steps


def _one_by_one(data: Data, count: int) -> Positions:
    """The ends of `count` consecutive records in `data`."""
    try:
        return np.array(walk.record_ends(data.tobytes(), 0, count), np.int64)
    except (IndexError, ValueError) as error:
        raise InvalidBatchError("a record is cut short") from error
