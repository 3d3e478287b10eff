"""A batch of which some records have gone: what is as it was, and what the header says now."""

import pytest

from ottla.codec.compression import Compression
from ottla.record.batch import LOG_APPEND_TIME_BIT, Batch, RecordBatch, TimestampType, batch_at
from ottla.record.builder import RecordBatchBuilder
from ottla.record.legacy import build_message
from ottla.record.record import read_records
from ottla.storage.compaction.key_filter import stored_records
from ottla.storage.compaction.rebuilding import build_empty, build_retained, build_retained_messages
from tests.support.logs import NOW_MS
from tests.support.old_messages import build_wrapper


def batch(codec: Compression = Compression.NONE) -> RecordBatch:
    builder = RecordBatchBuilder(
        compression=codec, producer_id=7, producer_epoch=3, base_sequence=40
    )
    builder.append(b"a", b"1", NOW_MS, [("h", b"x")])
    builder.append(b"b", b"2", NOW_MS + 90)
    builder.append(b"c", b"3", NOW_MS + 50)
    content = bytearray(builder.build())
    content[:8] = (100).to_bytes(8, "big")
    content[12:16] = (5).to_bytes(4, "big")
    found = batch_at(bytes(content))
    assert isinstance(found, RecordBatch)
    return found


def read(content: bytes) -> tuple[RecordBatch, list[tuple[int, bytes | None, int]]]:
    found = batch_at(content)
    found.check()
    assert isinstance(found, RecordBatch)
    return found, [(one.offset, one.value, one.timestamp_ms) for one in read_records(found)]


def span(one: Batch) -> tuple[int, int, int, int, int, int]:
    return (
        one.base_offset,
        one.last_offset,
        one.partition_leader_epoch,
        one.producer_id,
        one.producer_epoch,
        one.last_sequence,
    )


@pytest.mark.parametrize("codec", list(Compression))
def test_the_records_that_stay_keep_offsets_and_times_and_the_batch_its_span(
    codec: Compression,
) -> None:
    before = batch(codec)
    after, records = read(build_retained(before, stored_records(before, [0, 2]), None))
    assert records == [(100, b"1", NOW_MS), (102, b"3", NOW_MS + 50)]
    assert span(after) == span(before)
    assert (after.record_count, after.compression) == (2, codec)
    assert (after.base_timestamp_ms, after.max_timestamp_ms) == (NOW_MS, NOW_MS + 50)
    assert next(iter(read_records(after))).headers == (("h", b"x"),)


def test_where_the_first_record_goes_the_base_offset_stays_and_times_count_from_the_next() -> None:
    before = batch()
    after, records = read(build_retained(before, stored_records(before, [1]), None))
    assert records == [(101, b"2", NOW_MS + 90)]
    assert (after.base_offset, after.base_timestamp_ms) == (100, NOW_MS + 90)


def test_a_delete_horizon_takes_the_place_of_the_base_timestamp() -> None:
    before = batch()
    horizon_ms = NOW_MS + 86_400_000
    after, records = read(build_retained(before, stored_records(before, [0, 1]), horizon_ms))
    assert after.has_delete_horizon
    assert after.base_timestamp_ms == horizon_ms
    # The records' own times are what they were.
    assert records == [(100, b"1", NOW_MS), (101, b"2", NOW_MS + 90)]
    assert after.max_timestamp_ms == NOW_MS + 90


def test_a_batch_without_records_still_has_its_offsets_and_its_producers_sequence() -> None:
    before = batch(Compression.ZSTD)
    after, records = read(build_empty(before))
    assert records == []
    assert (after.record_count, after.size) == (0, 61)
    assert span(after) == span(before)


@pytest.mark.parametrize("magic", [0, 1])
def test_of_a_wrapper_the_messages_that_stay_are_wrapped_again(magic: int) -> None:
    first = 0 if magic else 20  # Offsets in a wrapper of format v1 are relative.
    inner = [
        build_message(b"k", b"%d" % one, magic=magic, offset=first + one, timestamp_ms=NOW_MS)
        for one in range(3)
    ]
    gzip = Compression.GZIP
    before = batch_at(
        build_wrapper(inner, magic=magic, compression=gzip, offset=22, timestamp_ms=NOW_MS)
    )
    kept = list(read_records(before))[1:]
    assert [one.offset for one in kept] == [21, 22]
    after = batch_at(build_retained_messages(before, kept))
    after.check()
    assert (after.magic, after.compression, after.last_offset) == (magic, gzip, 22)
    assert list(read_records(after)) == kept


def test_an_old_message_with_the_brokers_time_keeps_that() -> None:
    before = batch_at(
        build_message(
            b"k", b"v", magic=1, offset=9, timestamp_ms=NOW_MS, attributes=LOG_APPEND_TIME_BIT
        )
    )
    after = batch_at(build_retained_messages(before, list(read_records(before))))
    assert after.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert after.max_timestamp_ms == NOW_MS
