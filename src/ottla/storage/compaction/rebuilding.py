"""Rebuilds a batch without some of its records, or with a delete horizon.

Offsets, sequence numbers and the last offset do not change: removed records leave gaps. Kafka's
counterpart: `MemoryRecords.buildRetainedRecordsInto`.
"""

from collections.abc import Sequence

from ottla.record.batch import Batch, RecordBatch, TimestampType
from ottla.record.builder import build_empty_batch, builder_like
from ottla.record.message_set import MessageSetBuilder
from ottla.record.record import Record
from ottla.record.walk import with_shifted_times
from ottla.storage.compaction.key_filter import StoredRecords


def build_empty(batch: Batch) -> bytes:
    """A v2 batch without records."""
    assert isinstance(batch, RecordBatch)
    return build_empty_batch(batch)


def build_retained(
    batch: RecordBatch, records: StoredRecords, delete_horizon_ms: int | None
) -> bytes:
    """A v2 batch of the retained records, compressed with the original codec."""
    shift = None if delete_horizon_ms is None else delete_horizon_ms - batch.base_timestamp_ms
    packed, shift, largest_delta = with_shifted_times(records.data, records.places, shift)
    builder = builder_like(
        batch, compression=batch.compression, delete_horizon_ms=delete_horizon_ms
    )
    builder.append_packed(
        packed,
        len(records.places),
        base_timestamp_ms=batch.base_timestamp_ms + shift,
        max_timestamp_ms=batch.base_timestamp_ms + largest_delta,
    )
    return builder.build(last_offset=batch.last_offset)


def build_retained_messages(batch: Batch, records: Sequence[Record]) -> bytes:
    """A message of an old format, or a wrapper around the retained messages."""
    is_append_time = batch.timestamp_type is TimestampType.LOG_APPEND_TIME
    builder = MessageSetBuilder(
        records[0].offset,
        magic=batch.magic,
        compression=batch.compression,
        append_time_ms=batch.max_timestamp_ms if is_append_time else None,
    )
    for record in records:
        builder.append_at(record.offset, record.key, record.value, record.timestamp_ms)
    return builder.build()
