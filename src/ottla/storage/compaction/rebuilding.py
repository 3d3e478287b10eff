"""The bytes of a batch of which only some records stay, or whose delete horizon begins.

Offsets, sequence numbers and the last offset stay as they were: the gaps tell of what has gone.
Kafka's counterpart: `MemoryRecords.buildRetainedRecordsInto`.
"""

from collections.abc import Sequence

from ottla.record.batch import Batch, RecordBatch, TimestampType
from ottla.record.builder import RecordBatchBuilder, build_empty_batch
from ottla.record.message_set import MessageSetBuilder
from ottla.record.record import Record
from ottla.storage.compaction.sieve import Kept


def build_empty(batch: Batch) -> bytes:
    """The header alone."""
    assert isinstance(batch, RecordBatch)
    return build_empty_batch(batch)


def build_retained(
    batch: RecordBatch, records: Kept, count: int, delete_horizon_ms: int | None
) -> bytes:
    """A v2 batch of these records, in the codec it had."""
    is_append_time = batch.timestamp_type is TimestampType.LOG_APPEND_TIME
    first_delta, largest_delta = records.timestamp_deltas()
    shift = first_delta
    if delete_horizon_ms is not None:
        shift = delete_horizon_ms - batch.base_timestamp_ms
    builder = RecordBatchBuilder(
        batch.base_offset,
        compression=batch.compression,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
        is_transactional=batch.is_transactional,
        is_control=batch.is_control,
        leader_epoch=batch.partition_leader_epoch,
        append_time_ms=batch.max_timestamp_ms if is_append_time else None,
        delete_horizon_ms=delete_horizon_ms,
    )
    builder.append_packed(
        records.pack(shift),
        count,
        base_timestamp_ms=batch.base_timestamp_ms + shift,
        max_timestamp_ms=batch.base_timestamp_ms + largest_delta,
    )
    return builder.build(last_offset=batch.last_offset)


def build_retained_messages(batch: Batch, records: Sequence[Record]) -> bytes:
    """An old message, or a wrapper around those that stay."""
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
