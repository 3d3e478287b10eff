"""A log copied into an empty one, step by step, while the source is written to, cut and cleaned."""

from dataclasses import replace

import pytest

from ottla.storage.log.log_copy import MAX_BATCHES, LogCopy, start_of_copy
from ottla.storage.log.partition_log import PartitionLog
from ottla.testing import FakeFileSystem
from tests.support.compacting import COMPACTED, Write, clean, keeper_of, stored
from tests.support.logs import NOW_MS, SMALL, append, fill, leave_to_tier, open_log, values

LARGE = 1 << 20


@pytest.fixture
def source() -> PartitionLog:
    log = open_log(FakeFileSystem())
    fill(log, 20)
    return log


@pytest.fixture
def target() -> PartitionLog:
    return open_log(FakeFileSystem())


def copy_all(copy: LogCopy, max_size: int = LARGE) -> int:
    steps = 0
    while copy.has_more:
        copy.step(max_size, NOW_MS)
        steps += 1
    return steps


def test_a_copy_has_the_same_bytes_under_the_same_offsets(
    source: PartitionLog, target: PartitionLog
) -> None:
    copy = LogCopy(source, target)
    assert (copy.lag, copy.has_more) == (40, True)
    copy_all(copy)
    assert (copy.lag, copy.has_more) == (0, False)
    assert stored(target) == stored(source)
    assert values(target) == values(source)
    assert copy.step(LARGE, NOW_MS) == 0


def test_a_step_copies_whole_batches_up_to_a_size_and_at_least_one(
    source: PartitionLog, target: PartitionLog
) -> None:
    copy = LogCopy(source, target)
    batch_size = copy.step(1, NOW_MS)
    assert target.log_end_offset == 2
    assert copy.step(3 * batch_size + 10, NOW_MS) == 3 * batch_size
    assert target.log_end_offset == 8


def test_of_small_batches_only_some_are_copied_at_a_time() -> None:
    roomy = replace(SMALL, segment_bytes=1 << 20, segment_index_bytes=1 << 12)
    source, target = (open_log(FakeFileSystem(), roomy) for _ in range(2))
    fill(source, MAX_BATCHES + 1)
    LogCopy(source, target).step(1 << 20, NOW_MS)
    assert target.log_end_offset == 2 * MAX_BATCHES


def test_only_what_readers_may_see_is_copied(source: PartitionLog, target: PartitionLog) -> None:
    source.is_replicated = True
    append(source, b"not committed")
    copy = LogCopy(source, target)
    copy_all(copy)
    assert (target.log_end_offset, copy.lag) == (40, 1)


def test_a_copy_begins_with_the_batch_that_holds_the_first_offset(
    source: PartitionLog, target: PartitionLog
) -> None:
    source.maintenance.delete_records_before(11)
    assert start_of_copy(source) == 10
    copy = LogCopy(source, target)
    copy_all(copy)
    copy.carry_over()
    assert target.log_start_offset == 11
    assert values(target) == values(source)


def test_a_copy_that_retention_has_overtaken_begins_again(
    source: PartitionLog, target: PartitionLog
) -> None:
    copy = LogCopy(source, target)
    copy.step(1, NOW_MS)
    source.maintenance.delete_records_before(20)
    copy_all(copy)
    assert target.segments.first.base_offset == 20
    assert values(target) == values(source)


def test_what_the_source_was_cut_of_is_not_in_the_copy(
    source: PartitionLog, target: PartitionLog
) -> None:
    copy = LogCopy(source, target)
    copy_all(copy)
    source.maintenance.truncate_to(30, now_ms=NOW_MS)
    for number in range(5):
        append(source, b"other %d" % number)
    copy.step(LARGE, NOW_MS)
    copy_all(copy)
    assert stored(target) == stored(source)


def test_a_copy_from_before_a_restart_loses_what_the_source_has_lost(
    source: PartitionLog, target: PartitionLog
) -> None:
    copy_all(LogCopy(source, target))
    source.maintenance.truncate_to(30, now_ms=NOW_MS)
    again = LogCopy(source, target)
    again.resume(NOW_MS)
    assert target.log_end_offset == 30
    copy_all(again)
    assert stored(target) == stored(source)


def test_a_copy_that_begins_after_its_source_begins_again(
    source: PartitionLog, target: PartitionLog
) -> None:
    target.maintenance.truncate_fully_and_start_at(10, now_ms=NOW_MS)
    copy = LogCopy(source, target)
    copy.resume(NOW_MS)
    assert target.segments.first.base_offset == 0
    copy_all(copy)
    assert stored(target) == stored(source)


def test_a_copy_ends_where_its_source_does_though_compaction_took_the_last_records(
    target: PartitionLog,
) -> None:
    disk = FakeFileSystem()
    keeper = keeper_of(disk)
    for _ in range(3):
        keeper.carry_out(Write(((b"a", b"1"),)))
    keeper.finish()
    clean(keeper.log, disk)
    target.maintenance.reconfigure(COMPACTED)
    copy = LogCopy(keeper.log, target)
    copy_all(copy)
    assert target.log_end_offset == keeper.log.log_end_offset
    assert stored(target) == stored(keeper.log)


def test_leader_epochs_and_producers_come_over_in_the_end(target: PartitionLog) -> None:
    source = open_log(FakeFileSystem())
    append(source, b"a", producer_id=7, producer_epoch=1, base_sequence=0)
    fill(source, 10)
    source.maintenance.delete_records_before(15)
    copy = LogCopy(source, target)
    copy_all(copy)
    # The batch of the producer is not in the copy.
    assert 7 not in target.producers.entries
    copy.carry_over()
    assert target.producers.entries.keys() == source.producers.entries.keys() == {7}
    assert target.epochs.entries == source.epochs.entries


def test_of_a_tiered_log_only_segments_are_copied_and_its_start_comes_over() -> None:
    tiered = replace(SMALL, remote_storage_enable=True, retention_ms=-1)
    source, target = (open_log(FakeFileSystem(), tiered) for _ in range(2))
    fill(source, 20)
    source.maintenance.delete_records_before(1)
    local = leave_to_tier(source, 2)
    assert start_of_copy(source) == local
    target.maintenance.truncate_fully_and_start_at(start_of_copy(source), now_ms=NOW_MS)
    copy = LogCopy(source, target)
    copy_all(copy)
    copy.carry_over()
    assert (target.log_start_offset, target.local_start_offset) == (1, local)
    assert target.offsets.highest_remote_offset == local - 1
    assert target.epochs.entries == source.epochs.entries
    assert stored(target) == stored(source)


def test_a_copy_that_local_retention_has_overtaken_begins_again() -> None:
    tiered = replace(SMALL, remote_storage_enable=True, retention_ms=-1)
    source, target = (open_log(FakeFileSystem(), tiered) for _ in range(2))
    fill(source, 20)
    copy = LogCopy(source, target)
    copy.step(1, NOW_MS)
    local = leave_to_tier(source, 3)
    copy_all(copy)
    copy.carry_over()
    assert (target.log_start_offset, target.local_start_offset) == (0, local)
    assert stored(target) == stored(source)
