"""Decodes records to lists of fields, for readers that return objects.

`ListCutter` decodes v2 batches without a call for each record. numpy is not needed.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field
from itertools import groupby
from typing import Any, Final

from ottla.base.values import dataclass
from ottla.record.batch import Batch, InvalidBatchError, RecordBatch, TimestampType
from ottla.record.list_cutting import ListCutter
from ottla.record.record import Headers, Record, UnfrozenRecord, read_records, unpacked_payload

COUNT: Final = 500
"""The most records in a list. Their objects stay in the processor's cache, and most are freed
before Python's cyclic garbage collector runs, after 700 new objects."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldLists:
    """Lists with one entry for each record, in the log's order."""

    offsets: list[int] = field(default_factory=list)
    timestamps_ms: list[int] = field(default_factory=list)
    timestamp_types: list[TimestampType | None] = field(default_factory=list)
    keys: list[bytes | None] = field(default_factory=list)
    values: list[bytes | None] = field(default_factory=list)
    headers: list[Headers] = field(default_factory=list)
    leader_epochs: list[int] = field(default_factory=list)

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

    def records(self) -> list[Record]:
        made: list[Any] = list(
            map(
                UnfrozenRecord,
                self.offsets,
                self.timestamps_ms,
                self.timestamp_types,
                self.keys,
                self.values,
                self.headers,
                self.leader_epochs,
            )
        )
        for one in made:
            one.__class__ = Record
        return made


def field_lists(batches: Iterable[Batch]) -> Iterator[FieldLists]:
    """The records of checked batches, up to COUNT at a time; raises `InvalidBatchError`."""
    for is_v2, run in groupby(batches, lambda one: isinstance(one, RecordBatch)):
        if is_v2:
            yield from _cut(one for one in run if isinstance(one, RecordBatch))
        else:
            for batch in run:
                yield _listed(list(read_records(batch)))


def _cut(batches: Iterable[RecordBatch]) -> Iterator[FieldLists]:
    lists = FieldLists()
    for batch in batches:
        if batch.record_count < 0:
            raise InvalidBatchError(f"a record count of {batch.record_count}")
        if not batch.record_count:
            continue  # as in Kafka, without decompressing the payload
        kind, epoch = batch.timestamp_type, batch.partition_leader_epoch
        cutter = ListCutter(batch, unpacked_payload(batch))
        while cutter.left:
            room = COUNT - len(lists.offsets)
            count = cutter.cut(
                room, lists.offsets, lists.timestamps_ms, (lists.keys, lists.values), lists.headers
            )
            if kind is TimestampType.LOG_APPEND_TIME:
                lists.timestamps_ms[-count:] = [batch.max_timestamp_ms] * count
            lists.timestamp_types.extend([kind] * count)
            lists.leader_epochs.extend([epoch] * count)
            if count == room:
                yield lists
                lists = FieldLists()
    if lists.offsets:
        yield lists


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
