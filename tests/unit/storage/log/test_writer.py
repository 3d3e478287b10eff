"""Appends to a log: offsets, retries, refusals, and when a segment is rolled."""

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.codec.compression import Compression
from ottla.config.topic import TopicConfig
from ottla.record.control import EndTransactionMarker, build_end_transaction_marker
from ottla.record.layout import HEADER_SIZE
from ottla.record.legacy import build_message
from ottla.storage import scan
from ottla.storage.log.offsets import Isolation
from ottla.storage.log.partition_log import PartitionLog
from ottla.storage.log.producer_state import AppendOrigin
from ottla.testing import CrashMode, FakeFileSystem
from tests.support.damaged_logs import with_right_checksum
from tests.support.logs import NOW_MS, append, batch, fill, open_log, read_all, values


@pytest.fixture
def log() -> PartitionLog:
    return open_log(FakeFileSystem())


def refusal(log: PartitionLog, records: bytearray) -> ErrorCode:
    before = (log.log_end_offset, log.size)
    with pytest.raises(ApiError) as caught:
        log.writer.append_as_leader(records, leader_epoch=0, now_ms=NOW_MS)
    assert (log.log_end_offset, log.size) == before, "a refused append left something behind"
    return caught.value.code


def end_transaction(log: PartitionLog, producer_id: int, *, commit: bool) -> None:
    marker = build_end_transaction_marker(
        EndTransactionMarker(is_commit=commit, coordinator_epoch=0),
        producer_id=producer_id,
        producer_epoch=0,
        timestamp_ms=NOW_MS,
    )
    log.writer.append_as_leader(
        bytearray(marker), leader_epoch=0, now_ms=NOW_MS, origin=AppendOrigin.COORDINATOR
    )
    log.writer.write_out()


def test_offsets_are_given_in_order_of_append(log: PartitionLog) -> None:
    assert append(log, b"a", b"b").first_offset == 0
    info = append(log, b"c")
    assert (info.first_offset, info.last_offset) == (2, 2)
    assert [(one.offset, one.value) for one in read_all(log)] == [(0, b"a"), (1, b"b"), (2, b"c")]


def test_an_append_is_invisible_until_it_is_written_out(log: PartitionLog) -> None:
    log.writer.append_as_leader(batch(b"a"), leader_epoch=0, now_ms=NOW_MS)
    assert (log.log_end_offset, log.high_watermark) == (1, 0)
    assert log.reader.read(0, 1000, Isolation.HIGH_WATERMARK).records is None
    log.writer.write_out()
    assert log.high_watermark == 1
    assert values(log) == [b"a"]


def test_a_full_offset_index_rolls_the_segment() -> None:
    config = TopicConfig(segment_bytes=1 << 20, index_interval_bytes=0, segment_index_bytes=24)
    log = open_log(FakeFileSystem(), config)
    fill(log, 10)
    assert len(log.segments) > 3
    assert values(log) == [b"%d" % one for one in range(20)]


def test_an_index_without_room_rebuilds_the_empty_segment() -> None:
    config = TopicConfig(segment_bytes=1 << 20, segment_index_bytes=4)
    log = open_log(FakeFileSystem(), config)
    append(log, b"a")
    assert [segment.base_offset for segment in log.segments.values] == [0]
    append(log, b"b")
    assert values(log) == [b"a", b"b"]


def test_a_segment_rolls_when_its_first_batch_is_too_old() -> None:
    log = open_log(FakeFileSystem(), TopicConfig(segment_ms=1000))
    append(log, b"a", timestamp_ms=NOW_MS)
    append(log, b"b", timestamp_ms=NOW_MS + 1000)
    assert len(log.segments) == 1
    append(log, b"c", timestamp_ms=NOW_MS + 1001)
    assert [one.base_offset for one in log.segments.values] == [0, 2]


def test_damage_is_refused_as_corrupt(log: PartitionLog) -> None:
    damaged = batch(b"value")
    damaged[-1] ^= 1
    assert refusal(log, damaged) is ErrorCode.CORRUPT_MESSAGE
    assert refusal(log, batch(b"value")[:-1]) is ErrorCode.CORRUPT_MESSAGE
    assert refusal(log, bytearray(b"not a batch at all, but long enough for one")) is (
        ErrorCode.CORRUPT_MESSAGE
    )


def test_what_is_too_large_is_refused_by_the_limit_it_breaks() -> None:
    log = open_log(FakeFileSystem(), TopicConfig(max_message_bytes=400, segment_bytes=200))
    assert refusal(log, batch(b"x" * 500)) is ErrorCode.MESSAGE_TOO_LARGE
    assert refusal(log, batch(b"x" * 250)) is ErrorCode.RECORD_LIST_TOO_LARGE


def test_a_client_may_not_write_control_batches(log: PartitionLog) -> None:
    assert refusal(log, batch(b"x", is_control=True)) is ErrorCode.INVALID_RECORD


def test_a_compacted_topic_needs_keys_and_names_the_records_without() -> None:
    log = open_log(FakeFileSystem(), TopicConfig(cleanup_policy=("compact",)))
    keyless = bytearray(build_message(None, b"v", magic=1, timestamp_ms=NOW_MS))
    assert refusal(log, keyless) is ErrorCode.INVALID_RECORD
    append(log, b"with a key")


def test_timestamps_too_far_from_the_clock_are_refused() -> None:
    log = open_log(
        FakeFileSystem(),
        TopicConfig(message_timestamp_before_max_ms=10, message_timestamp_after_max_ms=10),
    )
    append(log, b"now", timestamp_ms=NOW_MS - 10)
    assert refusal(log, batch(b"x", timestamp_ms=NOW_MS - 11)) is ErrorCode.INVALID_TIMESTAMP
    assert refusal(log, batch(b"x", timestamp_ms=NOW_MS + 11)) is ErrorCode.INVALID_TIMESTAMP


def test_append_time_replaces_the_producers_time() -> None:
    log = open_log(FakeFileSystem(), TopicConfig(message_timestamp_type="LogAppendTime"))
    info = append(log, b"a", timestamp_ms=5, compression=Compression.LZ4)
    assert info.log_append_time_ms == NOW_MS
    assert [one.timestamp_ms for one in read_all(log)] == [NOW_MS]


@pytest.mark.parametrize("target", ["gzip", "snappy", "lz4", "zstd", "uncompressed"])
def test_a_topic_with_a_codec_of_its_own_stores_batches_in_it(target: str) -> None:
    log = open_log(FakeFileSystem(), TopicConfig(compression_type=target))
    append(log, b"a", b"b", compression=Compression.GZIP)
    append(log, b"c", compression=Compression.NONE)
    header = next(scan.headers(log.segments.active.log))[1]
    assert header.compression.kafka_name == {"uncompressed": "none"}.get(target, target)
    assert values(log) == [b"a", b"b", b"c"]


def test_old_messages_are_written_in_the_current_format(log: PartitionLog) -> None:
    old = build_message(b"k", b"v0", magic=0) + build_message(b"k", b"v0 too", magic=0)
    info = log.writer.append_as_leader(bytearray(old), leader_epoch=0, now_ms=NOW_MS)
    log.writer.write_out()
    assert (info.first_offset, info.last_offset) == (0, 1)
    assert values(log) == [b"v0", b"v0 too"]


def test_a_retry_is_answered_with_the_first_offsets_and_not_written(log: PartitionLog) -> None:
    for sequence in range(7):
        append(log, b"%d" % sequence, producer_id=5, producer_epoch=0, base_sequence=sequence)
    again = append(log, b"4", producer_id=5, producer_epoch=0, base_sequence=4)
    assert (again.first_offset, again.last_offset, again.size) == (4, 4, 0)
    assert log.log_end_offset == 7
    too_old = batch(b"0", producer_id=5, producer_epoch=0, base_sequence=0)
    assert refusal(log, too_old) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_sequence_numbers_used_again_after_an_abort_of_the_same_epoch_make_a_retry(
    log: PartitionLog,
) -> None:
    sent = {"producer_id": 5, "producer_epoch": 0, "is_transactional": True}
    append(log, b"dropped unanswered", base_sequence=0, **sent)
    end_transaction(log, 5, commit=False)
    again = append(log, b"of the next transaction", base_sequence=0, **sent)
    assert (again.first_offset, again.size, log.log_end_offset) == (0, 0, 2)
    new = append(log, b"of a new epoch", base_sequence=0, **{**sent, "producer_epoch": 1})
    assert (new.first_offset, new.size > 0, log.log_end_offset) == (2, True, 3)


def test_a_gap_in_the_sequence_and_an_old_epoch_are_refused(log: PartitionLog) -> None:
    append(log, b"a", producer_id=5, producer_epoch=1, base_sequence=0)
    gap = batch(b"c", producer_id=5, producer_epoch=1, base_sequence=2)
    assert refusal(log, gap) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    old = batch(b"b", producer_id=5, producer_epoch=0, base_sequence=1)
    assert refusal(log, old) is ErrorCode.INVALID_PRODUCER_EPOCH
    new_epoch = batch(b"b", producer_id=5, producer_epoch=2, base_sequence=1)
    assert refusal(log, new_epoch) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    append(log, b"b", producer_id=5, producer_epoch=2, base_sequence=0)


def test_followers_keep_the_leaders_offsets(log: PartitionLog) -> None:
    first = batch(b"a", b"b", base_offset=10, leader_epoch=3)
    info = log.writer.append_as_follower(first, now_ms=NOW_MS)
    log.writer.write_out()
    assert (info.first_offset, log.log_end_offset, log.epochs.latest_epoch) == (10, 12, 3)
    with pytest.raises(ApiError, match="follows"):
        log.writer.append_as_follower(batch(b"c", base_offset=11), now_ms=NOW_MS)
    assert [one.offset for one in read_all(log, 10)] == [10, 11]


def test_a_garbled_record_inside_a_right_batch_is_refused_where_records_are_read() -> None:
    log = open_log(FakeFileSystem(), TopicConfig(cleanup_policy=("compact",)))
    garbled = batch(b"value")
    garbled[HEADER_SIZE] ^= 0x40  # The record's own size.
    with_right_checksum(garbled, 0)
    assert refusal(log, garbled) == ErrorCode.INVALID_RECORD
    append(log, b"value")


def test_a_gap_between_a_followers_batches_is_written_down_before_them() -> None:
    disk = FakeFileSystem()
    log = open_log(disk)
    records = batch(b"a")
    records[:8] = (7).to_bytes(8, "big")
    log.writer.append_as_follower(bytes(records), now_ms=NOW_MS)
    log.writer.write_out()
    assert (log.log_start_offset, log.log_end_offset) == (0, 8)
    again = open_log(disk.crash(CrashMode.KEEP))
    assert values(again) == [b"a"]
    assert again.log_end_offset == 8


def test_a_log_that_is_told_to_end_later_continues_there(log: PartitionLog) -> None:
    append(log, b"a")
    log.writer.skip_to(10, now_ms=NOW_MS)
    assert (log.log_end_offset, log.high_watermark) == (10, 10)
    assert append(log, b"b").first_offset == 10
    assert values(log) == [b"a", b"b"]


def test_a_replicated_logs_high_watermark_moves_only_when_it_is_told() -> None:
    log = open_log(FakeFileSystem())
    log.is_replicated = True
    append(log, b"a", b"b", b"c")
    assert (log.log_end_offset, log.high_watermark) == (3, 0)
    log.writer.move_high_watermark(2)
    assert log.high_watermark == 2
