"""Which records stay: each key's last, tombstones until their horizon, all behind the map's end.

`PlainSieve` asks record by record. `vector_sieve` answers the same for many at once where numpy
is installed. Kafka's counterpart: `Cleaner.shouldRetainRecord`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ottla.codec.varint import (
    VarintError,
    read_varint,
    read_varlong,
    write_varint,
    write_varlong,
)
from ottla.record.batch import Batch, InvalidBatchError, RecordBatch
from ottla.record.legacy import read_legacy_records
from ottla.record.record import Record, unpacked_payload
from ottla.storage.compaction.offset_map import OffsetMap


class Kept(Protocol):
    """Some records of a v2 batch, in their order, as they are stored."""

    def timestamp_deltas(self) -> tuple[int, int]:
        """The first and the largest."""

    def pack(self, shift: int) -> bytes:
        """One behind the other, with `shift` taken off their timestamp deltas."""


@dataclass(frozen=True, slots=True)
class RawRecord:
    """A record of a v2 batch as it is stored; `rest` is all behind the timestamp delta."""

    timestamp_delta: int
    rest: bytes


@dataclass(frozen=True, slots=True)
class RawRecords:
    """Kept records one by one."""

    records: Sequence[RawRecord]

    def timestamp_deltas(self) -> tuple[int, int]:
        deltas = [one.timestamp_delta for one in self.records]
        return deltas[0], max(deltas)

    def pack(self, shift: int) -> bytes:
        packed = bytearray()
        for record in self.records:
            body = bytearray(b"\0")
            write_varlong(body, record.timestamp_delta - shift)
            body += record.rest
            write_varint(packed, len(body))
            packed += body
        return bytes(packed)


@dataclass(slots=True, kw_only=True)
class Survivors:
    """What stays of one batch: `count` records, all of them when it `is_whole`.

    `records` are `Kept` of a v2 batch, and the records themselves of an old one.
    """

    records: Kept | Sequence[Record]
    count: int
    is_whole: bool
    has_tombstone: bool
    keyless_count: int = 0


@dataclass(frozen=True, slots=True)
class Candidate:
    """A batch whose records are to be sifted; `keeps_tombstones`: their time has not come."""

    batch: Batch
    keeps_tombstones: bool


class Sieve(Protocol):
    """Learns offsets in ascending order, then tells survivors.

    Everything raises `InvalidBatchError`.
    """

    @property
    def size(self) -> int:
        """How many keys are known."""

    @property
    def capacity(self) -> int:
        """How many keys can be known."""

    def learn(self, batches: Sequence[Batch], start_offset: int) -> None:
        """Takes in the keys of the records from `start_offset`; there must be room for all."""

    def sift(self, candidates: Sequence[Candidate], end_offset: int) -> list[Survivors]:
        """What stays of each batch; what lies at or behind `end_offset` was not learnt."""


class PlainSieve:
    """Needs nothing but Python."""

    def __init__(self, memory_bytes: int, load_factor: float) -> None:
        self._map = OffsetMap(memory_bytes, load_factor)

    @property
    def size(self) -> int:
        return self._map.size

    @property
    def capacity(self) -> int:
        return self._map.capacity

    def learn(self, batches: Sequence[Batch], start_offset: int) -> None:
        for batch in batches:
            for row in _rows(batch):
                if row.key is not None and row.offset >= start_offset:
                    self._map.put(row.key, row.offset)

    def sift(self, candidates: Sequence[Candidate], end_offset: int) -> list[Survivors]:
        return [self._sift(one, end_offset) for one in candidates]

    def _sift(self, candidate: Candidate, end_offset: int) -> Survivors:
        kept: list[Any] = []
        has_tombstone = False
        total = keyless = 0
        for row in _rows(candidate.batch):
            total += 1
            if row.offset < end_offset:
                if row.key is None:
                    keyless += 1
                    continue
                if row.offset < self._map.get(row.key):
                    continue
                if row.is_tombstone and not candidate.keeps_tombstones:
                    continue
            kept.append(row.record)
            has_tombstone |= row.is_tombstone
        return Survivors(
            records=RawRecords(kept) if isinstance(candidate.batch, RecordBatch) else kept,
            count=len(kept),
            is_whole=len(kept) == total,
            has_tombstone=has_tombstone,
            keyless_count=keyless,
        )


@dataclass(slots=True)
class _Row:
    offset: int
    key: bytes | None
    is_tombstone: bool
    record: RawRecord | Record


def _rows(batch: Batch) -> Iterator[_Row]:
    if isinstance(batch, RecordBatch):
        return _v2_rows(batch)
    return _old_rows(batch)


def raw_records(batch: RecordBatch) -> RawRecords:
    """All records of a v2 batch; raises `InvalidBatchError`."""
    return RawRecords([row.record for row in _v2_rows(batch) if isinstance(row.record, RawRecord)])


def _old_rows(batch: Batch) -> Iterator[_Row]:
    for record in read_legacy_records(batch):
        yield _Row(record.offset, record.key, record.value is None, record)


def _v2_rows(batch: RecordBatch) -> Iterator[_Row]:
    payload = bytes(unpacked_payload(batch))
    position = 0
    try:
        for _ in range(batch.record_count):
            size, start = read_varint(payload, position)
            end = start + size
            timestamp_delta, rest = read_varlong(payload, start + 1)
            offset_delta, behind = read_varint(payload, rest)
            key, behind = _read_field(payload, behind, end)
            value_size, behind = read_varint(payload, behind)
            if size < 0 or max(behind, behind + value_size) > end or end > len(payload):
                raise InvalidBatchError("a record is cut short")
            raw = RawRecord(timestamp_delta, payload[rest:end])
            yield _Row(batch.base_offset + offset_delta, key, value_size < 0, raw)
            position = end
    except (IndexError, VarintError) as error:
        raise InvalidBatchError("a record is cut short") from error
    if position != len(payload):
        raise InvalidBatchError("a batch's size and the size of its records disagree")


def _read_field(payload: bytes, position: int, end: int) -> tuple[bytes | None, int]:
    size, start = read_varint(payload, position)
    if start + size > end:
        raise InvalidBatchError("a record is cut short")
    return (None, start) if size < 0 else (payload[start : start + size], start + size)
