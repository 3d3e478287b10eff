"""The fields of many v2 records as lists, for readers that hand out objects.

`find_all_fields` finds the places of all fields in one compiled loop, and lists are cut from them
without a call for each record: about a microsecond for a record with all that it holds. Where the
walk is not compiled, records are read one by one. numpy is not needed.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby
from typing import Final

from ottla.base.files import Buffer
from ottla.codec.compression import Compression
from ottla.codec.varint import VarintError
from ottla.record import walk
from ottla.record.batch import Batch, InvalidBatchError, RecordBatch, TimestampType
from ottla.record.layout import HEADER_SIZE
from ottla.record.record import Headers, Record, read_headers, read_records, unpacked_payload

GROUP_COUNT: Final = 1024
GROUP_SIZE: Final = 1 << 20
"""Batches are read together up to so many records and bytes: fewer calls for small ones."""

REASONS: Final = {
    walk.CUT_SHORT: "a record is cut short",
    walk.DISAGREES: "a batch's size and the size of its records disagree",
    walk.TOO_LONG: "a varint is too long",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldLists:
    """One entry of each list for each record, in the log's order."""

    offsets: list[int]
    timestamps_ms: list[int]
    timestamp_types: list[TimestampType | None]
    keys: list[bytes | None]
    values: list[bytes | None]
    headers: list[Headers]
    leader_epochs: list[int]

    def part(self, first: int, end: int) -> "FieldLists":
        return FieldLists(
            offsets=self.offsets[first:end],
            timestamps_ms=self.timestamps_ms[first:end],
            timestamp_types=self.timestamp_types[first:end],
            keys=self.keys[first:end],
            values=self.values[first:end],
            headers=self.headers[first:end],
            leader_epochs=self.leader_epochs[first:end],
        )


def field_lists(batches: Iterable[Batch]) -> Iterator[FieldLists]:
    """The records of checked batches, in groups; raises `InvalidBatchError`."""
    for is_v2, run in groupby(batches, lambda one: isinstance(one, RecordBatch)):
        if is_v2:
            v2 = (one for one in run if isinstance(one, RecordBatch) and one.record_count)
            yield from map(_found if walk.IS_COMPILED else _read, _groups(v2))
        else:
            for batch in run:
                yield _listed(list(read_records(batch)))


def _groups(batches: Iterable[RecordBatch]) -> Iterator[list[RecordBatch]]:
    group: list[RecordBatch] = []
    count = size = 0
    for batch in batches:
        group.append(batch)
        count += batch.record_count
        size += batch.size
        if count >= GROUP_COUNT or size >= GROUP_SIZE:
            yield group
            group, count, size = [], 0, 0
    if group:
        yield group


def _read(batches: list[RecordBatch]) -> FieldLists:
    return _listed([record for batch in batches for record in read_records(batch)])


def _listed(records: Sequence[Record]) -> FieldLists:
    return FieldLists(
        offsets=[one.offset for one in records],
        timestamps_ms=[one.timestamp_ms for one in records],
        timestamp_types=[one.timestamp_type for one in records],
        keys=[one.key for one in records],
        values=[one.value for one in records],
        headers=[one.headers for one in records],
        leader_epochs=[one.leader_epoch for one in records],
    )


def _found(batches: list[RecordBatch]) -> FieldLists:
    data, starts, ends = _payloads(batches)
    counts = [one.record_count for one in batches]
    for batch in batches:
        # The columns are made for what the header says, before a record is seen.
        if not 0 <= batch.record_count * 7 <= len(data):
            raise InvalidBatchError(f"the header says {batch.record_count} records")
    found, reason = walk.find_all_fields(data, starts, ends, counts)
    if reason:
        raise InvalidBatchError(REASONS[reason])
    total = sum(counts)
    columns: list[int] = memoryview(found).tolist()
    places = [columns[at : at + total] for at in range(0, walk.COLUMN_COUNT * total, total)]
    timestamps, offsets, kinds, epochs = _headed(batches, places)
    rest = zip(places[walk.VALUE_END], places[walk.END], strict=True)
    return FieldLists(
        offsets=offsets,
        timestamps_ms=timestamps,
        timestamp_types=kinds,
        keys=_cut(data, places[walk.KEY_START], places[walk.KEY_END]),
        values=_cut(data, places[walk.VALUE_START], places[walk.VALUE_END]),
        # A record without headers ends in the byte that counts them.
        headers=[() if end == at + 1 else _headers(data, at, end) for at, end in rest],
        leader_epochs=epochs,
    )


def _payloads(batches: list[RecordBatch]) -> tuple[bytes, list[int], list[int]]:
    """The plain records of all batches in one piece, and where those of each begin and end."""
    if all(one.compression is Compression.NONE for one in batches):
        first, last = batches[0], batches[-1]
        shift = first.position
        data = bytes(memoryview(first.buffer)[shift : last.position + last.size])
        starts = [one.position + HEADER_SIZE - shift for one in batches]
        return data, starts, [one.position + one.size - shift for one in batches]
    pieces: list[Buffer] = [unpacked_payload(one) for one in batches]
    ends = list(accumulate(map(len, pieces)))
    return b"".join(pieces), [0, *ends[:-1]], ends


def _headed(
    batches: list[RecordBatch], places: list[list[int]]
) -> tuple[list[int], list[int], list[TimestampType | None], list[int]]:
    """Timestamps, offsets, whose clock, and leader epochs: what each batch's header begins."""
    timestamps: list[int] = []
    offsets: list[int] = []
    kinds: list[TimestampType | None] = []
    epochs: list[int] = []
    at = 0
    for batch in batches:
        count, kind = batch.record_count, batch.timestamp_type
        base_ms, base_offset = batch.base_timestamp_ms, batch.base_offset
        if kind is TimestampType.LOG_APPEND_TIME:
            timestamps += [batch.max_timestamp_ms] * count
        else:
            timestamps += [base_ms + one for one in places[walk.TIMESTAMP_DELTA][at : at + count]]
        offsets += [base_offset + one for one in places[walk.OFFSET_DELTA][at : at + count]]
        kinds += [kind] * count
        epochs += [batch.partition_leader_epoch] * count
        at += count
    return timestamps, offsets, kinds, epochs


def _cut(data: bytes, starts: list[int], ends: list[int]) -> list[bytes | None]:
    return [
        data[start:end] if start >= 0 else None for start, end in zip(starts, ends, strict=True)
    ]


def _headers(data: bytes, position: int, end: int) -> Headers:
    try:
        headers, position = read_headers(data, position)
    except (VarintError, IndexError) as error:
        raise InvalidBatchError(f"a record is garbled: {error}") from error
    if position != end:
        raise InvalidBatchError("a record's size and content disagree")
    return headers
