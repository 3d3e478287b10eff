"""Logs cut at the end and at the front."""

from dataclasses import replace

import pytest

from ottla.base.errors import ApiError
from ottla.storage.log.leader_epochs import EpochEntry
from ottla.storage.log.maintenance import TierStart, copied_entries
from ottla.storage.log.partition_log import PartitionLog
from ottla.testing import CrashMode, FakeFileSystem
from tests.support.logs import (
    NOW_MS,
    SMALL,
    append,
    batch,
    fill,
    leave_to_tier,
    open_log,
    read_all,
    values,
)

TIERED = replace(SMALL, remote_storage_enable=True, retention_ms=-1)


@pytest.fixture
def file_system() -> FakeFileSystem:
    return FakeFileSystem()


@pytest.fixture
def log(file_system: FakeFileSystem) -> PartitionLog:
    log = open_log(file_system)
    fill(log, 20)
    return log


@pytest.mark.parametrize("offset", range(41))
def test_a_cut_keeps_whole_batches_below_it(offset: int) -> None:
    log = open_log(FakeFileSystem())
    fill(log, 20)
    assert log.maintenance.truncate_to(offset, now_ms=NOW_MS) is (offset < 40)
    kept = offset // 2 * 2
    assert log.log_end_offset == kept
    assert values(log) == [b"%d" % one for one in range(kept)]
    fill(log, 5)
    assert values(log) == [b"%d" % one for one in range(kept + 10)]


def test_a_cut_log_still_finds_every_time(log: PartitionLog) -> None:
    log.maintenance.truncate_to(0, now_ms=NOW_MS)
    for second in range(12):
        append(log, b"x" * 20, timestamp_ms=NOW_MS + 1000 * second)
    log.maintenance.truncate_to(11, now_ms=NOW_MS)
    log.writer.roll(NOW_MS)
    found = log.reader.find_timestamp(NOW_MS + 10_000)
    assert found is not None
    assert found.offset == 10


def test_a_cut_takes_producers_and_epochs_back(log: PartitionLog) -> None:
    for sequence in range(10):
        append(log, b"x", producer_id=3, producer_epoch=0, base_sequence=sequence)
    log.writer.append_as_leader(bytearray(_batch(10)), leader_epoch=4, now_ms=NOW_MS)
    log.writer.write_out()
    log.maintenance.truncate_to(45, now_ms=NOW_MS)
    assert log.epochs.latest_epoch == 0
    assert append(log, b"x", producer_id=3, producer_epoch=0, base_sequence=5).first_offset == 45


def test_a_cut_at_the_end_takes_an_epoch_that_has_no_records(log: PartitionLog) -> None:
    """A leader's, which appended nothing before another led: it stands in no other log."""
    log.epochs.assign(9, 40)
    assert not log.maintenance.truncate_to(40, now_ms=NOW_MS)
    assert log.epochs.latest_epoch == 0
    assert log.log_end_offset == 40


def _batch(sequence: int) -> bytearray:
    return batch(b"y", producer_id=3, producer_epoch=0, base_sequence=sequence)


def test_an_emptied_log_continues_where_it_is_told(log: PartitionLog) -> None:
    log.maintenance.truncate_fully_and_start_at(1000, now_ms=NOW_MS)
    assert (log.log_start_offset, log.high_watermark, log.log_end_offset) == (1000, 1000, 1000)
    assert append(log, b"new").first_offset == 1000
    assert [one.offset for one in read_all(log)] == [1000]


def test_deleted_records_are_gone_at_once_and_their_files_later(log: PartitionLog) -> None:
    segments = len(log.segments)
    assert log.maintenance.delete_records_before(17) == 17
    assert values(log)[0] == b"17"
    assert len(log.segments) == segments
    assert len(log.maintenance.delete_segments_below_start()) == 1
    assert log.segments.first.base_offset <= 17
    assert values(log) == [b"%d" % one for one in range(17, 40)]


def test_deleting_beyond_the_high_watermark_is_refused(log: PartitionLog) -> None:
    with pytest.raises(ApiError, match="is not between 0 and the high watermark 40"):
        log.maintenance.delete_records_before(41)
    assert log.maintenance.delete_records_before(-1) == 40
    assert values(log) == []


def test_a_cut_log_is_the_same_after_a_crash(
    file_system: FakeFileSystem, log: PartitionLog
) -> None:
    log.maintenance.truncate_to(13, now_ms=NOW_MS)
    again = open_log(file_system.crash(CrashMode.KEEP))
    assert values(again) == [b"%d" % one for one in range(12)]


# Logs whose first segments are in a tier


@pytest.fixture
def tiered(file_system: FakeFileSystem) -> PartitionLog:
    """Offsets 0 to 39 in several epochs, of which the first segments are in the tier only."""
    log = open_log(file_system, TIERED)
    for epoch in range(4):
        for _ in range(5):
            first = log.log_end_offset
            records = batch(b"%d" % first, b"%d" % (first + 1))
            log.writer.append_as_leader(records, leader_epoch=epoch, now_ms=NOW_MS)
            log.writer.write_out()
    leave_to_tier(log, len(log.segments) // 2)
    return log


def starts(log: PartitionLog) -> tuple[int, int, int]:
    return log.log_start_offset, log.local_start_offset, log.log_end_offset


def epochs_of(log: PartitionLog) -> list[tuple[int, int]]:
    return [(one.epoch, one.start_offset) for one in log.epochs.entries]


def test_a_cut_above_the_local_start_leaves_both_starts(tiered: PartitionLog) -> None:
    local = tiered.local_start_offset
    assert 10 < local < 30
    tiered.maintenance.truncate_to(local + 2, now_ms=NOW_MS)
    assert starts(tiered) == (0, local, local + 2)


@pytest.mark.parametrize("offset", [12, 5, 1])
def test_a_cut_within_the_tier_keeps_the_log_start_and_the_epochs_before_it(
    tiered: PartitionLog, offset: int
) -> None:
    tiered.maintenance.truncate_to(offset, now_ms=NOW_MS)
    assert starts(tiered) == (0, offset, offset)
    assert epochs_of(tiered) == [one for one in [(0, 0), (1, 10), (2, 20)] if one[1] < offset]
    assert tiered.offsets.highest_remote_offset == offset - 1
    assert append(tiered, b"new").first_offset == offset


def test_a_cut_at_the_local_start_keeps_what_is_in_the_tier(tiered: PartitionLog) -> None:
    local = tiered.local_start_offset
    tiered.maintenance.truncate_to(local, now_ms=NOW_MS)
    assert starts(tiered) == (0, local, local)


def test_a_cut_below_the_log_start_takes_it_along(tiered: PartitionLog) -> None:
    tiered.maintenance.delete_records_before(6)
    tiered.maintenance.truncate_to(4, now_ms=NOW_MS)
    assert starts(tiered) == (4, 4, 4)


def test_a_cut_below_a_local_start_of_which_files_are_left(file_system: FakeFileSystem) -> None:
    log = open_log(file_system, TIERED)
    fill(log, 20)
    local = log.segments.values[2].base_offset
    log.writer.flush()
    log.offsets.highest_remote_offset = local - 1
    log.maintenance.leave_to_tier(local)
    log.maintenance.truncate_to(local - 1, now_ms=NOW_MS)
    assert starts(log) == (0, local - 1, local - 1)


def test_a_log_that_begins_again_starts_where_it_is_told_to(
    file_system: FakeFileSystem, tiered: PartitionLog
) -> None:
    tiered.maintenance.truncate_fully_and_start_at(60, now_ms=NOW_MS, log_start=12)
    assert starts(tiered) == (12, 60, 60)
    assert epochs_of(tiered) == [(1, 12), (2, 20), (3, 30)]
    assert tiered.high_watermark == 60
    tiered.maintenance.truncate_fully_and_start_at(70, now_ms=NOW_MS)
    assert starts(tiered) == (70, 70, 70)
    assert epochs_of(tiered) == []


@pytest.mark.parametrize("offset", [5, 25])
def test_a_cut_of_a_tiered_log_is_the_same_after_a_crash(
    file_system: FakeFileSystem, tiered: PartitionLog, offset: int
) -> None:
    tiered.maintenance.truncate_to(offset, now_ms=NOW_MS)
    again = open_log(file_system.crash(CrashMode.KEEP), TIERED)
    assert starts(again) == starts(tiered)
    assert epochs_of(again) == epochs_of(tiered)


def test_a_log_begins_with_what_the_tier_has_of_its_state(tiered: PartitionLog) -> None:
    append(tiered, b"one", producer_id=7, producer_epoch=0, base_sequence=0)
    producers = copied_entries(tiered.producers)
    epochs = [EpochEntry(0, 5), EpochEntry(3, 40)]
    tiered.maintenance.start_from_tier(
        TierStart(offset=60, log_start_offset=5, epochs=epochs, producers=producers),
        now_ms=NOW_MS,
    )
    starts = tiered.log_start_offset, tiered.local_start_offset, tiered.log_end_offset
    assert starts == (5, 60, 60)
    assert list(tiered.epochs.entries) == epochs
    assert tiered.snapshots.offsets == [60]
    # The producer's next batch is recognized as the next one.
    append(tiered, b"two", producer_id=7, producer_epoch=0, base_sequence=1)
    assert tiered.log_end_offset == 61
