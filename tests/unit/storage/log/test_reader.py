"""Reads from a log: from any offset, up to where a reader may see, and by time."""

import struct
import sys
from dataclasses import replace
from types import FrameType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.config.topic import TopicConfig
from ottla.record.batch import iter_batches
from ottla.record.control import EndTransactionMarker, build_end_transaction_marker
from ottla.storage.log.offsets import FoundOffset, Isolation, OffsetInTierError
from ottla.storage.log.partition_log import PartitionLog
from ottla.storage.log.producer_state import AppendOrigin
from ottla.storage.log.reader import MANY_ABORTED, LogReader
from ottla.testing import FakeFileSystem
from tests.support.log_transactions import Transactions
from tests.support.logs import NOW_MS, SMALL, append, batch, fill, leave_to_tier, open_log, values


@pytest.fixture
def log() -> PartitionLog:
    return open_log(FakeFileSystem())


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


def test_a_small_read_gets_the_aborted_transactions_near_it_only(log: PartitionLog) -> None:
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


@given(st.lists(st.tuples(st.integers(1, 3), st.sampled_from("wwwacr")), max_size=20))
def test_each_read_gets_the_aborted_transactions_that_overlap_it(
    steps: list[tuple[int, str]],
) -> None:
    log = open_log(FakeFileSystem())
    transactions = Transactions(log)
    begun: set[int] = set()
    for producer, step in steps:
        if step == "w":
            transactions.write(producer)
            begun.add(producer)
        elif step == "r":
            log.writer.roll(NOW_MS)
        elif producer in begun:
            transactions.end(producer, is_commit=step == "c")
            begun.discard(producer)
        all_of_them = [
            one for segment in log.segments.values for one in segment.transaction_index.entries
        ]
        end = log.log_end_offset
        for begin, until in ((0, end), (end // 3, end // 2), (end // 2, end)):
            if begin < until:
                assert log.reader.aborted_transactions(begin, until) == [
                    one
                    for one in all_of_them
                    if one.last_offset >= begin and one.first_offset < until
                ]


def calls_of_a_read(log: PartitionLog, offset: int) -> int:
    calls = 0

    # Of the log's own code: values compile their initializers at the first or a later use, and a
    # collection of garbage that falls into the read calls whoever asked to be told of it.
    def count(frame: FrameType, event: str, _: object) -> None:
        nonlocal calls
        calls += event.endswith("call") and "/ottla/storage/" in frame.f_code.co_filename

    sys.setprofile(count)
    try:
        log.reader.read(offset, 1000, Isolation.LAST_STABLE)
    finally:
        sys.setprofile(None)
    return calls


@pytest.mark.skipif(
    not hasattr(LogReader.read, "__code__"), reason="calls of compiled functions are not seen"
)
def test_a_read_of_committed_records_costs_the_same_however_many_segments_follow(
    log: PartitionLog,
) -> None:
    def rolled(count: int) -> None:
        while len(log.segments) < count:
            fill(log, 1)
            log.writer.roll(NOW_MS)

    rolled(10)
    calls_of_a_read(log, 0)
    rolled(20)
    first, second = calls_of_a_read(log, 0), calls_of_a_read(log, 0)
    rolled(120)
    assert second > 0
    assert (calls_of_a_read(log, 0), calls_of_a_read(log, 0)) == (first, second)


@pytest.mark.slow
def test_a_read_ends_after_as_many_aborted_transactions_as_it_may_tell_and_tells_all() -> None:
    log = open_log(FakeFileSystem(), TopicConfig())
    count = 2 * MANY_ABORTED + 100
    append(log, b"long", producer_id=6, producer_epoch=0, base_sequence=0, is_transactional=True)
    for number in range(count):
        append(
            log,
            b"x",
            producer_id=5,
            producer_epoch=0,
            base_sequence=number,
            is_transactional=True,
        )
        end_transaction(log, 5, commit=False)
    end_transaction(log, 6, commit=False)
    told: dict[int, int] = {}
    reads, offset = 0, 0
    while offset < log.log_end_offset:
        data = log.reader.read(offset, 10_000_000, Isolation.LAST_STABLE)
        assert data.records is not None
        assert data.aborted is not None
        batches = list(iter_batches(data.records.read()))
        offset, reads = batches[-1].last_offset + 1, reads + 1
        assert len(data.aborted) <= MANY_ABORTED + 1
        aborted = {entry.first_offset: entry.last_offset for entry in data.aborted}
        told |= aborted
        for one in batches:
            if not one.is_control:
                assert one.base_offset in aborted, "the reader would take it for committed"
    assert len(told) == count + 1
    assert reads >= 3


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


def test_what_is_in_the_tier_only_is_told_apart_from_what_is_nowhere() -> None:
    log = open_log(FakeFileSystem(), replace(SMALL, remote_storage_enable=True, retention_ms=-1))
    fill(log, 20)
    log.maintenance.delete_records_before(3)
    local = leave_to_tier(log, 2)
    for offset in (3, local - 1):
        with pytest.raises(OffsetInTierError) as in_tier:
            log.reader.read(offset, 100, Isolation.HIGH_WATERMARK)
        assert in_tier.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
    for offset in (2, 41):
        with pytest.raises(ApiError) as nowhere:
            log.reader.read(offset, 100, Isolation.HIGH_WATERMARK)
        assert not isinstance(nowhere.value, OffsetInTierError)
    assert values(log, local) == [b"%d" % one for one in range(local, 40)]


def test_the_starts_are_found_apart_and_times_in_local_segments_only() -> None:
    log = open_log(FakeFileSystem(), replace(SMALL, remote_storage_enable=True, retention_ms=-1))
    for epoch in range(20):
        records = batch(b"%d" % epoch, timestamp_ms=NOW_MS + epoch)
        log.writer.append_as_leader(records, leader_epoch=epoch, now_ms=NOW_MS)
        log.writer.write_out()
    local = leave_to_tier(log, 2)
    found = {one: log.reader.find_timestamp(one) for one in (-2, -4, -3, NOW_MS)}
    assert found == {
        -2: FoundOffset(0, -1, 0),
        -4: FoundOffset(local, -1, local),
        -3: FoundOffset(19, NOW_MS + 19, 19),
        NOW_MS: FoundOffset(local, NOW_MS + local, local),
    }
    assert log.reader.offsets_before(-2) == [0]
    assert log.reader.offsets_before(-1)[-1] == local
