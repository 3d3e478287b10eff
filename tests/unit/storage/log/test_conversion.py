"""What becomes of a set in a topic of some format: kept, patched, repacked or refused."""

from collections.abc import Iterator

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.codec.compression import Compression
from ottla.config.topic import TopicConfig
from ottla.record.batch import Batch, TimestampType, iter_batches
from ottla.record.builder import RecordBatchBuilder
from ottla.record.legacy import LegacyBatch, build_message, inner_messages
from ottla.record.message_set import MessageSetBuilder
from ottla.record.record import Record, read_records
from ottla.storage.log.partition_log import PartitionLog
from ottla.testing import FakeFileSystem
from tests.support.logs import NOW_MS, open_log, read_all
from tests.support.old_messages import build_wrapper

VERSIONS = {0: "0.9.0", 1: "0.10.2", 2: "2.8"}
OLD_CODECS = [one for one in Compression if one is not Compression.ZSTD]


def topic_of(magic: int, **settings: object) -> TopicConfig:
    return TopicConfig(
        message_format_version=VERSIONS[magic],
        honours_format_version=True,
        **settings,  # type: ignore[arg-type]
    )


def log_of(magic: int, **settings: object) -> PartitionLog:
    return open_log(FakeFileSystem(), topic_of(magic, **settings))


def message_set(magic: int, compression: Compression, count: int = 3) -> bytes:
    builder = MessageSetBuilder(magic=magic, compression=compression)
    for number in range(count):
        builder.append(b"k%d" % number, b"v%d" % number, NOW_MS + (number * 7) % 5)
    return builder.build()


def record_batch(compression: Compression, **settings: object) -> bytes:
    builder = RecordBatchBuilder(compression=compression, **settings)  # type: ignore[arg-type]
    for number in range(3):
        builder.append(b"k%d" % number, b"v%d" % number, NOW_MS + (number * 7) % 5)
    return builder.build()


def sent_in(magic: int, compression: Compression) -> bytes:
    return record_batch(compression) if magic == 2 else message_set(magic, compression)


def append(log: PartitionLog, records: bytes) -> None:
    log.writer.append_as_leader(records, leader_epoch=3, now_ms=NOW_MS)
    log.writer.write_out()


def stored(log: PartitionLog) -> list[Batch]:
    data = b"".join(
        segment.log.read(0, segment.log.written_size) for segment in log.segments.values
    )
    batches = list(iter_batches(data))
    for one in batches:
        one.check()
    return batches


def refusal(log: PartitionLog, records: bytes) -> ErrorCode:
    with pytest.raises(ApiError) as refused:
        log.writer.append_as_leader(records, leader_epoch=0, now_ms=NOW_MS)
    assert log.log_end_offset == 0
    return refused.value.code


@pytest.mark.parametrize("source", [0, 1, 2])
@pytest.mark.parametrize("target", [0, 1, 2])
@pytest.mark.parametrize("compression", OLD_CODECS)
def test_every_format_is_kept_as_the_topic_demands(
    source: int, target: int, compression: Compression
) -> None:
    log = log_of(target)
    for _ in range(2):
        append(log, sent_in(source, compression))
    assert {(one.magic, one.compression) for one in stored(log)} == {(target, compression)}
    assert {one.partition_leader_epoch for one in stored(log)} == {3 if target == 2 else -1}
    records = read_all(log)
    assert [one.offset for one in records] == list(range(6))
    assert [(one.key, one.value) for one in records] == [
        (b"k%d" % number, b"v%d" % number) for number in (0, 1, 2)
    ] * 2
    has_times = source > 0 and target > 0
    times = [NOW_MS, NOW_MS + 2, NOW_MS + 4] if has_times else [-1] * 3
    assert [one.timestamp_ms for one in records] == times * 2


def test_an_uncompressed_set_becomes_one_batch_in_a_log_of_v2() -> None:
    log = log_of(2)
    append(log, message_set(1, Compression.NONE))
    assert [(one.base_offset, one.last_offset) for one in stored(log)] == [(0, 2)]


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("compression", OLD_CODECS)
def test_a_topics_own_codec_makes_one_wrapper_of_a_set(
    magic: int, compression: Compression
) -> None:
    log = log_of(magic, compression_type="gzip")
    append(log, message_set(magic, compression))
    (wrapper,) = stored(log)
    assert (wrapper.compression, wrapper.base_offset, wrapper.last_offset) == (
        Compression.GZIP, 0, 2,
    )  # fmt: skip


@pytest.mark.parametrize("magic", [0, 1])
def test_a_topic_without_compression_unpacks_a_wrapper(magic: int) -> None:
    log = log_of(magic, compression_type="uncompressed")
    append(log, message_set(magic, Compression.SNAPPY))
    assert [one.last_offset for one in stored(log)] == [0, 1, 2]


def inner_offsets(log: PartitionLog) -> Iterator[list[int]]:
    for one in stored(log):
        assert isinstance(one, LegacyBatch)
        yield [inner.last_offset for inner in inner_messages(one)]


def test_offsets_inside_a_wrapper_count_from_0_in_v1_and_are_absolute_in_v0() -> None:
    for magic, expected in ((0, [[0, 1, 2], [3, 4, 5]]), (1, [[0, 1, 2], [0, 1, 2]])):
        log = log_of(magic)
        for _ in range(2):
            append(log, message_set(magic, Compression.LZ4))
        assert list(inner_offsets(log)) == expected


def test_a_v1_wrapper_whose_inside_does_not_count_from_0_is_repacked() -> None:
    inner = [build_message(b"k", b"v", magic=1, offset=0) for _ in range(3)]
    log = log_of(1)
    append(log, build_wrapper(inner, magic=1, compression=Compression.GZIP, offset=0))
    assert list(inner_offsets(log)) == [[0, 1, 2]]
    assert log.log_end_offset == 3


def test_a_v1_wrapper_that_counts_from_0_is_kept_as_it_is_inside() -> None:
    sent = bytearray(message_set(1, Compression.GZIP))
    log = log_of(1)
    append(log, message_set(1, Compression.NONE))
    append(log, bytes(sent))
    sent[:8] = (5).to_bytes(8, "big")
    assert stored(log)[-1].bytes_view() == sent


NONE, GZIP, LZ4 = Compression.NONE, Compression.GZIP, Compression.LZ4


@pytest.mark.parametrize("codecs", [(GZIP, GZIP), (LZ4, GZIP), (NONE, GZIP, NONE), (GZIP, LZ4)])
@pytest.mark.parametrize("source", [0, 1])
@pytest.mark.parametrize("target", [0, 1, 2])
def test_several_wrappers_in_a_set_are_taken_in_the_codec_of_the_last(
    source: int, target: int, codecs: tuple[Compression, ...]
) -> None:
    log = log_of(target)
    append(log, message_set(1, NONE, count=1))
    append(log, b"".join(message_set(source, one) for one in codecs))
    last = [one for one in codecs if one is not NONE][-1]
    assert {one.compression for one in stored(log)[1:]} == {last}
    records = read_all(log)
    assert [one.offset for one in records] == list(range(1 + 3 * len(codecs)))
    assert [one.value for one in records[1:]] == [b"v0", b"v1", b"v2"] * len(codecs)


def test_a_wrapper_gets_the_largest_time_inside() -> None:
    inner = [build_message(b"k", b"v", magic=1, offset=i, timestamp_ms=9 - i) for i in range(2)]
    wrapper = build_wrapper(inner, magic=1, compression=Compression.LZ4, offset=1, timestamp_ms=-1)
    log = log_of(1)
    append(log, wrapper)
    assert [one.max_timestamp_ms for one in stored(log)] == [9]


@pytest.mark.parametrize("compression", OLD_CODECS)
@pytest.mark.parametrize("source", [0, 1, 2])
def test_append_time_is_stamped_on_v1(source: int, compression: Compression) -> None:
    log = log_of(1, message_timestamp_type="LogAppendTime")
    append(log, sent_in(source, compression))
    assert {(one.timestamp_ms, one.timestamp_type) for one in read_all(log)} == {
        (NOW_MS, TimestampType.LOG_APPEND_TIME)
    }


def test_v0_has_no_append_time() -> None:
    log = log_of(0, message_timestamp_type="LogAppendTime")
    append(log, message_set(0, Compression.NONE))
    assert {(one.timestamp_ms, one.timestamp_type) for one in read_all(log)} == {(-1, None)}


def test_the_callers_bytes_are_not_changed_when_they_may_not_be() -> None:
    sent = message_set(1, Compression.NONE)
    log = log_of(1)
    append(log, sent)
    append(log, sent)
    assert sent == message_set(1, Compression.NONE)
    assert log.log_end_offset == 6


WITH_HEADERS = RecordBatchBuilder()
WITH_HEADERS.append(b"k", b"v", NOW_MS, [("h", b"x")])
KEYLESS = build_message(None, b"v", magic=1, timestamp_ms=NOW_MS)

REFUSED: dict[str, tuple[bytes, ErrorCode]] = {
    "an idempotent producer": (
        record_batch(Compression.NONE, producer_id=1, producer_epoch=0, base_sequence=0),
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
    ),
    "a transaction": (
        record_batch(
            Compression.NONE,
            producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=True,
        ),
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
    ),
    "headers": (WITH_HEADERS.build(), ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT),
    "zstd": (record_batch(Compression.ZSTD), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
    "two formats": (
        message_set(1, Compression.NONE) + message_set(0, Compression.NONE),
        ErrorCode.INVALID_RECORD,
    ),
    "a wrapper of another format": (
        build_wrapper(
            [build_message(b"k", b"v", magic=0)],
            magic=1, compression=Compression.GZIP, offset=0,
        ),
        ErrorCode.INVALID_RECORD,
    ),
    "an empty wrapper": (
        build_wrapper([], magic=1, compression=Compression.GZIP, offset=0),
        ErrorCode.CORRUPT_MESSAGE,
    ),
    "damage inside a wrapper": (
        build_wrapper(
            [build_message(b"k", b"v", magic=1)[:-1] + b"w"],
            magic=1, compression=Compression.GZIP, offset=0,
        ),
        ErrorCode.CORRUPT_MESSAGE,
    ),
    "a broker's time": (
        build_message(b"k", b"v", magic=1, timestamp_ms=NOW_MS, attributes=8),
        ErrorCode.INVALID_TIMESTAMP,
    ),
    "a message cut short": (message_set(1, Compression.NONE)[:-1], ErrorCode.CORRUPT_MESSAGE),
}  # fmt: skip


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("name", list(REFUSED))
def test_what_an_old_format_cannot_hold_is_refused(name: str, magic: int) -> None:
    records, code = REFUSED[name]
    assert refusal(log_of(magic), records) is code


@pytest.mark.parametrize("magic", [0, 1, 2])
def test_a_compacted_topic_of_any_format_needs_keys(magic: int) -> None:
    assert refusal(log_of(magic, cleanup_policy=("compact",)), KEYLESS) is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("magic", [0, 1, 2])
def test_times_out_of_bounds_are_refused_by_the_older_setting_too(magic: int) -> None:
    log = log_of(magic, message_timestamp_difference_max_ms=10)
    early = build_message(b"k", b"v", magic=1, timestamp_ms=NOW_MS - 11)
    late = build_message(b"k", b"v", magic=1, timestamp_ms=NOW_MS + 11)
    assert refusal(log, early) is ErrorCode.INVALID_TIMESTAMP
    assert refusal(log, late) is ErrorCode.INVALID_TIMESTAMP


def test_a_younger_setting_of_times_counts_before_the_older_one() -> None:
    log = log_of(2, message_timestamp_difference_max_ms=10, message_timestamp_before_max_ms=100)
    append(log, build_message(b"k", b"v", magic=1, timestamp_ms=NOW_MS - 100))
    assert log.log_end_offset == 1


def test_what_grows_beyond_the_limit_when_it_is_unpacked_is_refused() -> None:
    log = log_of(1, compression_type="uncompressed", max_message_bytes=400)
    builder = MessageSetBuilder(magic=1, compression=Compression.GZIP)
    builder.append(b"k", b"v" * 1000, NOW_MS)
    assert refusal(log, builder.build()) is ErrorCode.MESSAGE_TOO_LARGE


def test_a_log_forgets_its_epochs_when_it_goes_back_to_an_old_format() -> None:
    log = log_of(2)
    append(log, record_batch(Compression.NONE))
    assert log.epochs.latest_epoch == 3
    log.maintenance.reconfigure(topic_of(1))
    append(log, message_set(1, Compression.NONE))
    assert log.epochs.latest_epoch is None
    log.maintenance.reconfigure(topic_of(2))
    append(log, record_batch(Compression.NONE))
    assert [(one.epoch, one.start_offset) for one in log.epochs.entries] == [(3, 6)]


def test_times_are_looked_up_in_v1_and_refused_in_v0() -> None:
    log = log_of(1)
    for compression in (Compression.NONE, Compression.GZIP):
        append(log, message_set(1, compression))
    found = log.reader.find_timestamp(NOW_MS + 3)
    assert found is not None
    assert (found.offset, found.timestamp_ms) == (2, NOW_MS + 4)
    log = log_of(0)
    append(log, message_set(0, Compression.NONE))
    assert [log.reader.find_timestamp(end).offset for end in (-1, -2)] == [3, 0]  # type: ignore[union-attr]
    with pytest.raises(ApiError) as refused:
        log.reader.find_timestamp(NOW_MS)
    assert refused.value.code is ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT


def test_producers_with_an_id_are_taken_where_the_format_is_ignored() -> None:
    log = open_log(FakeFileSystem(), TopicConfig(message_format_version="0.9.0"))
    append(log, record_batch(Compression.NONE, producer_id=1, producer_epoch=0, base_sequence=0))
    assert [one.magic for one in stored(log)] == [2]


def key_and_value(record: Record) -> tuple[bytes | None, bytes | None]:
    return record.key, record.value


def test_a_log_of_mixed_formats_is_read_across_them_all() -> None:
    log = log_of(0, segment_bytes=300)
    for magic in (0, 2, 1, 2, 0):
        log.maintenance.reconfigure(topic_of(magic, segment_bytes=300))
        for source in (0, 1, 2):
            append(log, sent_in(source, Compression.NONE))
            append(log, sent_in(source, Compression.GZIP))
    assert len(log.segments.values) > 3
    assert [one.offset for one in read_all(log)] == list(range(90))
    for batch in stored(log):
        expected = [key_and_value(one) for one in read_records(batch)]
        found = read_all(log, batch.base_offset)[: len(expected)]
        assert [key_and_value(one) for one in found] == expected
