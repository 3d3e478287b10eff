"""A partition's log over a fake disk: appends, reads, rolling, producers, refusals."""

import struct

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.codec.compression import Compression
from ottla.config.topic import TopicConfig
from ottla.record.batch import iter_batches
from ottla.record.control import EndTransactionMarker, build_end_transaction_marker
from ottla.record.legacy import build_message
from ottla.record.record import read_records
from ottla.storage import scan
from ottla.storage.log.partition_log import PartitionLog
from ottla.storage.log.producer_state import AppendOrigin
from ottla.storage.log.reader import FoundOffset, Isolation
from ottla.testing import FakeFileSystem
from tests.support.logs import NOW_MS, SMALL, append, batch, fill, open_log, read_all, values


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


@pytest.mark.parametrize("position", [-1, 1 << 30])
def test_an_index_that_points_outside_its_log_is_gone_without(position: int) -> None:
    """Kafka left such an index in a directory that it had recovered and closed in order."""
    disk = FakeFileSystem()
    log = open_log(disk, TopicConfig(index_interval_bytes=0))
    fill(log, 4)
    expected = values(log, 3)
    index = log.segments.active.offset_index
    entry = struct.pack(">ii", 3, position)
    file = disk.open(index.path, writable=True)
    file.pwrite(entry, 0)
    file.close()
    assert values(log, 3) == expected
    assert log.reader.find_timestamp(0) is not None
    assert log.segments.active.next_offset() == log.log_end_offset


def test_an_append_is_invisible_until_it_is_written_out(log: PartitionLog) -> None:
    log.writer.append_as_leader(batch(b"a"), leader_epoch=0, now_ms=NOW_MS)
    assert (log.log_end_offset, log.high_watermark) == (1, 0)
    assert log.reader.read(0, 1000, Isolation.HIGH_WATERMARK).records is None
    log.writer.write_out()
    assert log.high_watermark == 1
    assert values(log) == [b"a"]


def test_a_log_of_many_segments_is_read_from_any_offset(log: PartitionLog) -> None:
    fill(log, 40)
    assert len(log.segments) > 5
    for offset in range(81):
        assert values(log, offset) == [b"%d" % one for one in range(offset, 80)]


def test_a_read_gives_at_least_one_whole_batch_when_asked(log: PartitionLog) -> None:
    append(log, b"x" * 300)
    data = log.reader.read(0, 1, Isolation.HIGH_WATERMARK)
    assert data.records is not None
    assert len(list(iter_batches(data.records.read()))) == 1
    small = log.reader.read(0, 1, Isolation.HIGH_WATERMARK, min_one_message=False)
    assert small.records is not None
    assert small.records.size == 1


@pytest.mark.parametrize("offset", [-1, 3, 100])
def test_an_offset_outside_the_log_is_out_of_range(log: PartitionLog, offset: int) -> None:
    fill(log, 1)
    with pytest.raises(ApiError) as caught:
        log.reader.read(offset, 1000, Isolation.HIGH_WATERMARK)
    assert caught.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_reading_at_the_end_finds_nothing_and_no_error(log: PartitionLog) -> None:
    fill(log, 1)
    assert log.reader.read(2, 1000, Isolation.HIGH_WATERMARK).records is None


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
    assert (again.first_offset, again.last_offset, again.is_duplicate) == (4, 4, True)
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
    assert (again.first_offset, again.is_duplicate, log.log_end_offset) == (0, True, 2)
    new = append(log, b"of a new epoch", base_sequence=0, **{**sent, "producer_epoch": 1})
    assert (new.first_offset, new.is_duplicate, log.log_end_offset) == (2, False, 3)


def test_a_gap_in_the_sequence_and_an_old_epoch_are_refused(log: PartitionLog) -> None:
    append(log, b"a", producer_id=5, producer_epoch=1, base_sequence=0)
    gap = batch(b"c", producer_id=5, producer_epoch=1, base_sequence=2)
    assert refusal(log, gap) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    old = batch(b"b", producer_id=5, producer_epoch=0, base_sequence=1)
    assert refusal(log, old) is ErrorCode.INVALID_PRODUCER_EPOCH
    new_epoch = batch(b"b", producer_id=5, producer_epoch=2, base_sequence=1)
    assert refusal(log, new_epoch) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    append(log, b"b", producer_id=5, producer_epoch=2, base_sequence=0)


def test_an_open_transaction_holds_the_last_stable_offset(log: PartitionLog) -> None:
    append(log, b"before")
    append(log, b"a", producer_id=5, producer_epoch=0, base_sequence=0, is_transactional=True)
    append(log, b"after")
    assert (log.last_stable_offset, log.high_watermark) == (1, 3)
    assert [one.value for one in read_all(log, 0, Isolation.LAST_STABLE)] == [b"before"]
    end_transaction(log, 5, commit=True)
    assert log.last_stable_offset == 4


def test_an_aborted_transaction_is_told_to_readers_of_committed_records(log: PartitionLog) -> None:
    append(log, b"a", producer_id=5, producer_epoch=0, base_sequence=0, is_transactional=True)
    append(log, b"b", producer_id=6, producer_epoch=0, base_sequence=0, is_transactional=True)
    end_transaction(log, 5, commit=False)
    assert log.last_stable_offset == 1
    end_transaction(log, 6, commit=True)
    data = log.reader.read(0, 10_000, Isolation.LAST_STABLE)
    assert data.aborted is not None
    (aborted,) = data.aborted
    assert (aborted.producer_id, aborted.first_offset, aborted.last_offset) == (5, 0, 2)
    assert aborted.last_stable_offset == 1


def test_a_small_read_is_told_of_the_aborted_transactions_near_it_only(log: PartitionLog) -> None:
    for number in range(30):
        append(
            log,
            b"x" * 60,
            producer_id=5,
            producer_epoch=0,
            base_sequence=number,
            is_transactional=True,
        )
        end_transaction(log, 5, commit=False)
    data = log.reader.read(20, 1, Isolation.LAST_STABLE)
    assert data.records is not None
    assert data.aborted is not None
    assert (20, 21) in [(one.first_offset, one.last_offset) for one in data.aborted]
    assert len(data.aborted) <= 5
    assert [one.last_offset for one in data.aborted] == sorted(
        one.last_offset for one in data.aborted
    )


def test_offsets_are_found_by_time(log: PartitionLog) -> None:
    for second in range(20):
        append(log, b"x" * 50, timestamp_ms=NOW_MS + 1000 * second)
    assert log.reader.find_timestamp(NOW_MS + 7000) == FoundOffset(7, NOW_MS + 7000, 0)
    assert log.reader.find_timestamp(NOW_MS + 6001) == FoundOffset(7, NOW_MS + 7000, 0)
    assert log.reader.find_timestamp(0) == FoundOffset(0, NOW_MS, 0)
    assert log.reader.find_timestamp(NOW_MS + 19_001) is None
    assert log.reader.find_timestamp(-2) == FoundOffset(0, -1, 0)
    assert log.reader.find_timestamp(-1) == FoundOffset(20, -1, 0)
    assert log.reader.find_timestamp(-3) == FoundOffset(19, NOW_MS + 19_000, 0)


def test_the_cost_of_a_lookup_is_bounded_by_the_index(log: PartitionLog) -> None:
    fill(log, 60)
    for segment in log.segments.values[:-1]:
        count = segment.offset_index.entry_count
        positions = [segment.offset_index.entry(index)[1] for index in range(count)]
        gaps = [b - a for a, b in zip([0, *positions], positions, strict=False)]
        assert all(gap <= SMALL.index_interval_bytes + 200 for gap in gaps)


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
    good = batch(b"value")
    assert len(list(read_records(next(iter_batches(good))))) == 1
    append(log, b"value")
