"""Flushes: when they are due, what they sync, and what an fsync that fails does."""

import errno

import pytest

from ottla.base.errors import StorageError
from ottla.config.topic import TopicConfig
from ottla.storage.index.producer_snapshot import read_snapshot
from ottla.storage.log import maintenance
from ottla.testing import (
    CrashMode,
    FakeFileSystem,
    FaultPlan,
    FaultyFileSystem,
    IoKind,
    RecordingFileSystem,
)
from tests.support.logs import NOW_MS, append, fill, open_log, values


def test_a_roll_makes_the_ended_segments_due_and_nothing_else() -> None:
    file_system = FakeFileSystem()
    log = open_log(file_system)
    assert log.maintenance.due_flush(NOW_MS) is None
    fill(log, 20)
    plan = log.maintenance.due_flush(NOW_MS)
    assert plan is not None
    assert plan.until_offset == log.segments.active.base_offset
    assert log.offsets.recovery_point == 0
    plan.carry_out(file_system)
    plan.owner.finish_flush(plan, NOW_MS)
    assert log.offsets.recovery_point == log.segments.active.base_offset
    assert log.maintenance.due_flush(NOW_MS) is None
    kept = values(open_log(file_system.crash(CrashMode.STRICT)))
    assert kept[: plan.until_offset] == [b"%d" % offset for offset in range(plan.until_offset)]


@pytest.mark.parametrize("crash_after", [1, 2, 99])
def test_many_segments_are_flushed_a_few_at_a_time_and_none_is_left(
    crash_after: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maintenance, "SEGMENTS_PER_FLUSH", 3)
    file_system = FakeFileSystem()
    log = open_log(file_system)
    fill(log, 50)
    bases = [segment.base_offset for segment in log.segments.values]
    assert len(bases) > 9
    flushed: list[int] = []
    while (plan := log.maintenance.due_flush(NOW_MS)) is not None and len(flushed) < crash_after:
        plan.carry_out(file_system)
        plan.owner.finish_flush(plan, NOW_MS)
        assert log.offsets.recovery_point == plan.until_offset
        flushed.append(plan.until_offset)
    # Each begins with the last segment of the one before.
    assert flushed == [*bases[3:-1:2], bases[-1]][:crash_after]
    kept = values(open_log(file_system.crash(CrashMode.STRICT)))
    assert kept[: flushed[-1]] == [b"%d" % offset for offset in range(flushed[-1])]


def test_flush_ms_makes_everything_due_once_it_has_passed() -> None:
    log = open_log(FakeFileSystem(), TopicConfig(flush_ms=1000))
    log.last_flush_ms = NOW_MS
    append(log, b"a")
    assert log.maintenance.due_flush(NOW_MS + 999) is None
    plan = log.maintenance.due_flush(NOW_MS + 1000)
    assert plan is not None
    assert plan.until_offset == 1


def test_flush_messages_flushes_within_the_append() -> None:
    log = open_log(FakeFileSystem(), TopicConfig(flush_messages=3))
    append(log, b"a", b"b")
    assert log.offsets.recovery_point == 0
    append(log, b"c")
    assert log.offsets.recovery_point == 3


def test_a_segment_deleted_meanwhile_needs_no_sync() -> None:
    file_system = FakeFileSystem()
    log = open_log(file_system)
    fill(log, 20)
    plan = log.maintenance.plan_flush(40)
    assert plan is not None
    first = log.segments.first
    log.segments.remove([first])
    first.delete()
    plan.carry_out(file_system)
    plan.owner.finish_flush(plan, NOW_MS)
    assert log.offsets.recovery_point == 40


def test_a_failed_fsync_takes_the_directory_offline_and_is_not_tried_again() -> None:
    probe = FaultyFileSystem(FakeFileSystem())
    append(open_log(probe), b"a")
    before = len(probe.calls)
    faulty = FaultyFileSystem(
        FakeFileSystem(), FaultPlan(at_call=before, error=OSError(errno.EIO, "broken disk"))
    )
    log = open_log(faulty)
    append(log, b"a")
    with pytest.raises(StorageError, match="broken disk"):
        log.writer.flush()
    assert faulty.calls[before].kind is IoKind.SYNC
    assert log.offsets.recovery_point == 0
    for refused in (log.writer.flush, lambda: append(log, b"b")):
        with pytest.raises(StorageError, match="broken disk"):
            refused()
    assert not faulty.retried_failed_syncs


def test_a_flush_vouches_for_nothing_when_the_log_was_cut_meanwhile() -> None:
    file_system = FakeFileSystem()
    log = open_log(file_system)
    fill(log, 10)
    plan = log.maintenance.plan_flush(20)
    assert plan is not None
    plan.carry_out(file_system)
    log.maintenance.truncate_to(4, now_ms=NOW_MS)
    fill(log, 10)
    plan.owner.finish_flush(plan, NOW_MS)
    assert log.offsets.recovery_point <= 4


def test_a_segment_that_was_ended_after_a_flush_is_synced_with_the_next_one() -> None:
    file_system = FakeFileSystem()
    log = open_log(file_system)
    append(log, b"a")
    log.writer.flush()
    log.writer.roll(NOW_MS)
    append(log, b"b")
    plan = log.maintenance.plan_flush(log.high_watermark)
    assert plan is not None
    plan.carry_out(file_system)
    after = file_system.crash(CrashMode.STRICT)
    assert after.status("data/t-0/00000000000000000000.timeindex") == (
        file_system.crash(CrashMode.KEEP).status("data/t-0/00000000000000000000.timeindex")
    )


def test_an_append_that_rolls_waits_for_no_fsync() -> None:
    """One that takes 100 ms on a busy disk would hold up every client (KAFKA-15046)."""
    file_system = RecordingFileSystem(FakeFileSystem())
    log = open_log(file_system)
    append(log, b"a", producer_id=7, producer_epoch=0, base_sequence=0)
    before = len(file_system.calls)
    fill(log, 20)
    assert len(log.segments) > 2
    kinds = {call.kind for call in file_system.calls[before:]}
    assert not kinds & {IoKind.SYNC, IoKind.SYNC_DIRECTORY}


def test_the_flush_after_a_roll_makes_its_producer_snapshot_durable() -> None:
    file_system = FakeFileSystem()
    log = open_log(file_system)
    append(log, b"a", producer_id=7, producer_epoch=0, base_sequence=0)
    fill(log, 20)
    taken = log.snapshots.offsets
    assert taken
    plan = log.maintenance.due_flush(NOW_MS)
    assert plan is not None
    plan.carry_out(file_system)
    after = file_system.crash(CrashMode.STRICT)
    for offset in taken:
        (entry,), _ = read_snapshot(after, log.snapshots.path(offset))
        assert entry.producer_id == 7


def test_a_snapshot_of_a_roll_right_after_a_flush_is_durable_with_the_next_one() -> None:
    file_system = FakeFileSystem()
    log = open_log(file_system)
    fill(log, 2)
    log.writer.flush()
    log.writer.roll(NOW_MS)
    assert log.snapshots.offsets == [4]
    fill(log, 1)
    log.writer.flush()
    after = file_system.crash(CrashMode.STRICT)
    assert read_snapshot(after, log.snapshots.path(4))[0] == []


def test_a_snapshot_that_a_power_failure_took_is_made_again_from_the_log() -> None:
    file_system = FakeFileSystem()
    log = open_log(file_system)
    append(log, b"a", producer_id=7, producer_epoch=0, base_sequence=0)
    fill(log, 20)
    for segment in log.segments.values:
        segment.log.sync()
    log.sync_directory()
    recovered = open_log(file_system.crash(CrashMode.STRICT))
    assert recovered.producers.entries[7].last_sequence == 0
