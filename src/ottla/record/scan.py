"""Finds the fields of many v2 records at once: numpy arrays of positions instead of a loop.

A record's place is known only when the one before it has been measured, so the chain of sizes is
followed first: for all batches in lock step, record k of each, and one by one where too few
batches are that long. All else is then read for every record together.
numpy is imported by whoever imports this module: `columns`, when it is called, and others who
need numpy anyway.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ottla.base.files import Buffer
from ottla.codec.compression import Compression
from ottla.codec.varint import MAX_VARINT_SIZE, MAX_VARLONG_SIZE, VarintError, read_varint
from ottla.record.batch import InvalidBatchError, RecordBatch
from ottla.record.compiled import compiled
from ottla.record.layout import HEADER_SIZE
from ottla.record.record import unpacked_payload

Positions = NDArray[np.int64]
Data = NDArray[np.uint8]

MIN_RECORD_SIZE: Final = 7
"""A byte each: size, attributes, both deltas, key size, value size, header count."""

MAX_SCAN_SIZE: Final = 2**31 - 1
"""Arrow's binary columns count bytes with 32 bits."""

MIN_LOCK_STEP_WIDTH: Final = 100
"""Below so many batches at once a step of numpy costs more than a plain loop (measured)."""

compiled_scan: Any = compiled("ottla.record.compiled_scan")

REASONS: Final = {
    -1: "a record is cut short",
    -2: "a batch's size and the size of its records disagree",
    -3: "a varint is too long",
}
"""What `compiled_scan` means by its numbers."""

ZIG_ZAG: Final[NDArray[np.int64]] = np.array(
    [(byte >> 1) ^ -(byte & 1) for byte in range(256)], dtype=np.int64
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Payload:
    """Where a batch's plain records lie in the scanned bytes, and how many they are."""

    start: int
    end: int
    record_count: int


def plain_payloads(batches: Sequence[RecordBatch]) -> tuple[Buffer, list[Payload]]:
    """The records of all batches in one buffer: the log's own where nothing is compressed.

    `ValueError` for more than Arrow's offsets count.
    """
    buffer: Buffer
    if all(one.compression is Compression.NONE for one in batches):
        first, last = batches[0], batches[-1]
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
    return buffer, [
        Payload(start=start - shift, end=end - shift, record_count=batch.record_count)
        for (start, end), batch in zip(places, batches, strict=True)
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fields:
    """One kind of field of all records: where its bytes are. A null field has no bytes."""

    start: Positions
    end: Positions
    is_null: NDArray[np.bool_]


@dataclass(slots=True)
class RecordScan:
    """The records of several payloads, in order, read field by field.

    `position` is where each record's next unread field begins. Rows can be dropped on the way;
    what is not asked for is neither read nor checked. Raises `InvalidBatchError`.
    """

    data: Data
    position: Positions
    end: Positions

    @staticmethod
    def begin(buffer: Buffer, payloads: Sequence[Payload]) -> "RecordScan":
        data = np.frombuffer(buffer, dtype=np.uint8)
        if compiled_scan is not None:
            return CompiledScan.scanned(data, payloads)
        start, end = _follow_sizes(buffer, data, payloads)
        return RecordScan(data, start, end)

    def deltas(self) -> tuple[Positions, Positions]:
        """Timestamp and offset deltas; to be read first."""
        return self.deltas_and_rest()[:2]

    def deltas_and_rest(self) -> tuple[Positions, Positions, Positions]:
        """The same, and where the offset delta begins."""
        timestamp_delta, rest = read_varints(self.data, self.position + 1, MAX_VARLONG_SIZE)
        offset_delta, position = read_varints(self.data, rest, MAX_VARINT_SIZE)
        self._advance(position)
        return timestamp_delta, offset_delta, rest

    def keep(self, rows: NDArray[np.bool_]) -> None:
        self.position = self.position[rows]
        self.end = self.end[rows]

    def fields(self) -> Fields:
        """The next field: the keys, and behind them the values."""
        found = read_fields(self.data, self.position)
        self._advance(found.end)
        return found

    def headers(self) -> tuple[Positions, Fields, Fields]:
        """How many headers each record has; names and values of all, in order. To be read last."""
        counts, position = read_varints(self.data, self.position, MAX_VARINT_SIZE)
        # Each header takes two bytes: the check keeps what follows from allocating for a lie.
        if ((counts < 0) | (counts * 2 > self.end - position)).any():
            raise InvalidBatchError("more headers are stated than a record holds")
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
class CompiledScan(RecordScan):
    """All fields read beforehand, in one loop of a compiler."""

    columns: NDArray[np.int64]
    _next: int = 0

    @classmethod
    def scanned(cls, data: Data, payloads: Sequence[Payload]) -> "CompiledScan":
        _check_counts(payloads)
        start, end, count = (
            np.array([getattr(one, name) for one in payloads], np.int64)
            for name in ("start", "end", "record_count")
        )
        columns = np.empty((compiled_scan.COLUMN_COUNT, int(count.sum())), np.int64)
        failure = compiled_scan.scan_records(data, start, end, count, columns)
        if failure:
            raise InvalidBatchError(REASONS[failure])
        return cls(data, columns[compiled_scan.REST], columns[compiled_scan.END], columns)

    def deltas_and_rest(self) -> tuple[Positions, Positions, Positions]:
        self._next = compiled_scan.KEY_START
        columns = self.columns
        return (
            columns[compiled_scan.TIMESTAMP_DELTA],
            columns[compiled_scan.OFFSET_DELTA],
            columns[compiled_scan.REST],
        )

    def keep(self, rows: NDArray[np.bool_]) -> None:
        self.columns = self.columns[:, rows]
        self.position = self.columns[compiled_scan.HEADERS]
        self.end = self.columns[compiled_scan.END]

    def fields(self) -> Fields:
        start, end = self.columns[self._next], self.columns[self._next + 1]
        self._next += 2
        self.position = end
        is_null = start < 0
        return Fields(start=np.where(is_null, end, start), end=end, is_null=is_null)


def read_varints(data: Data, position: Positions, max_size: int) -> tuple[Positions, Positions]:
    """The zig-zag varint at each position, and the positions behind them."""
    byte = _bytes_at(data, position)
    value = ZIG_ZAG[byte]
    behind = position + 1
    longer = np.flatnonzero(byte > 0x7F)
    if longer.size:
        value[longer], behind[longer] = _read_long_varints(data, position[longer], max_size)
    return value, behind


def _read_long_varints(
    data: Data, position: Positions, max_size: int
) -> tuple[Positions, Positions]:
    value = (_bytes_at(data, position) & 0x7F).astype(np.uint64)
    byte = _bytes_at(data, position + 1)
    value |= (byte & 0x7F).astype(np.uint64) << np.uint64(7)
    behind = position + 2
    longer = np.flatnonzero(byte > 0x7F)
    shift = 14
    while longer.size:
        if shift >= 7 * max_size:
            raise InvalidBatchError("a varint is too long")
        byte = _bytes_at(data, behind[longer])
        value[longer] |= (byte & 0x7F).astype(np.uint64) << np.uint64(shift)
        behind[longer] += 1
        longer = longer[byte > 0x7F]
        shift += 7
    if max_size == MAX_VARINT_SIZE:
        value &= np.uint64(0xFFFFFFFF)
    signed = (value >> np.uint64(1)).astype(np.int64) ^ -(value & np.uint64(1)).astype(np.int64)
    return signed, behind


def _bytes_at(data: Data, position: Positions) -> Data:
    try:
        return data[position]
    except IndexError as error:
        raise InvalidBatchError("a record is cut short") from error


def read_fields(data: Data, position: Positions) -> Fields:
    """A field at each position: its size, -1 for null, and its bytes."""
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


def _follow_sizes(
    buffer: Buffer, data: Data, payloads: Sequence[Payload]
) -> tuple[Positions, Positions]:
    """Start (behind the size) and end of every record."""
    _check_counts(payloads)
    counts = np.array([one.record_count for one in payloads], dtype=np.int64)
    # The longest first, so that the batches that have a record k are always the front ones.
    order = np.argsort(-counts, kind="stable")
    first = np.cumsum(counts) - counts
    position = np.array([one.start for one in payloads], dtype=np.int64)
    bounds = np.empty((2, int(counts.sum())), dtype=np.int64)
    position[order], steps = _lock_step(data, position[order], first[order], counts[order], bounds)
    for one, row, where in zip(payloads, first.tolist(), position.tolist(), strict=True):
        if one.record_count > steps:
            where = _one_by_one(buffer, where, bounds[:, row + steps : row + one.record_count])
        if where != one.end:
            raise InvalidBatchError("a batch's size and the size of its records disagree")
    if (bounds[1] < bounds[0]).any():
        raise InvalidBatchError("a record has a negative size")
    return bounds[0], bounds[1]


def _check_counts(payloads: Sequence[Payload]) -> None:
    """So that nothing is allocated for a lie."""
    for one in payloads:
        if not 0 <= one.record_count * MIN_RECORD_SIZE <= one.end - one.start:
            raise InvalidBatchError(
                f"{one.record_count} records are stated in {one.end - one.start} bytes"
            )


def _lock_step(
    data: Data, position: Positions, first: Positions, counts: Positions, bounds: Positions
) -> tuple[Positions, int]:
    """Measures record k of all batches at once, while enough of them have one.

    Gives the positions reached and the number of steps. Sizes are checked when all is done: a
    negative one can lead astray, but not out of the data.
    """
    ascending = counts[::-1]
    steps = int(counts[MIN_LOCK_STEP_WIDTH - 1]) if len(counts) >= MIN_LOCK_STEP_WIDTH else 0
    for step in range(steps):
        width = len(counts) - int(np.searchsorted(ascending, step, side="right"))
        size, start = read_varints(data, position[:width], MAX_VARINT_SIZE)
        end = start + size
        slots = first[:width] + step
        bounds[0, slots] = start
        bounds[1, slots] = end
        position[:width] = end
    return position, steps


def _one_by_one(buffer: Buffer, position: int, bounds: Positions) -> int:
    """Measures as many records as there are columns in `bounds`; returns where the last ends."""
    starts: list[int] = []
    ends: list[int] = []
    try:
        for _ in range(bounds.shape[1]):
            # `read_varint`, with what most records need in place.
            byte = buffer[position]
            if byte < 0x80:
                position += 1
                size = (byte >> 1) ^ -(byte & 1)
            elif (second := buffer[position + 1]) < 0x80:
                position += 2
                size = ((byte & 0x7F | second << 7) >> 1) ^ -(byte & 1)
            else:
                size, position = read_varint(buffer, position)
            starts.append(position)
            position += size
            ends.append(position)
    except (IndexError, VarintError) as error:
        raise InvalidBatchError("a record is cut short") from error
    bounds[0] = starts
    bounds[1] = ends
    return position
