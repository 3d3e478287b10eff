"""What Kafka and its clients wrote, taken apart and built again, is the same bytes.

Snappy is left out: what it makes depends on the library's version.
"""

import pytest

from ottla.codec.compression import Compression
from ottla.record.batch import (
    LOG_APPEND_TIME_BIT,
    RecordBatch,
    TimestampType,
    iter_batches,
)
from ottla.record.builder import RecordBatchBuilder
from ottla.record.record import read_records
from tests.golden.test_golden_codecs import LOGS, is_of_java


def built_again(batch: RecordBatch) -> bytes:
    builder = RecordBatchBuilder(
        batch.base_offset,
        compression=batch.compression,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
        is_transactional=batch.is_transactional,
        is_control=batch.is_control,
        leader_epoch=batch.partition_leader_epoch,
        delete_horizon_ms=batch.base_timestamp_ms if batch.has_delete_horizon else None,
    )
    for record in read_records(as_created(batch)):
        builder.append_at(
            record.offset, record.key, record.value, record.timestamp_ms, record.headers
        )
    built = bytearray(builder.build(last_offset=batch.last_offset))
    if batch.timestamp_type is TimestampType.LOG_APPEND_TIME:
        RecordBatch(built).stamp_append_time(batch.max_timestamp_ms)
    return bytes(built)


def as_created(batch: RecordBatch) -> RecordBatch:
    """The batch with its producer's times, which stay inside under the broker's."""
    created = bytearray(batch.bytes_view())
    created[22] &= ~LOG_APPEND_TIME_BIT
    return RecordBatch(created)


@pytest.mark.skipif(not LOGS, reason="the directories written by Kafka are not here")
@pytest.mark.parametrize(
    "codec", [Compression.NONE, Compression.GZIP, Compression.LZ4, Compression.ZSTD]
)
def test_a_batch_taken_apart_is_built_again_byte_by_byte(codec: Compression) -> None:
    batches = [
        batch
        for path in LOGS
        for batch in iter_batches(path.read_bytes(), allow_torn_tail=True)
        if isinstance(batch, RecordBatch)
        if batch.compression is codec
        if codec is Compression.NONE or is_of_java(codec, bytes(batch.payload))
    ]
    assert len(batches) >= 5
    for batch in batches:
        assert built_again(batch) == batch.bytes_view()
