"""Which gaps between segments are a log's own, and which a power failure made."""

from dataclasses import replace

import pytest

from ottla.base.files import join, remove_if_present
from ottla.storage.diagnosis.directory_check import check
from ottla.storage.diagnosis.dump import dump_file
from ottla.storage.diagnosis.rows import PropertyRow
from ottla.storage.files.filenames import BOOT_NOTE, INTEGRITY, MAX_OFFSET, parse_file_name
from ottla.storage.findings import FindingKind
from ottla.storage.log.partition_log import PartitionLog
from ottla.testing import CrashMode, FakeFileSystem, IoKind, RecordingFileSystem
from tests.support.logs import NOW_MS, SMALL, batch, fill, open_log, values

COMPACTED = replace(SMALL, cleanup_policy=("compact",))
FILE = join("data/t-0", INTEGRITY)


def after_power_failure(disk: FakeFileSystem) -> None:
    """What is missing from now on may be what a power failure took: no note of its boot is left."""
    remove_if_present(disk, join("data", BOOT_NOTE))


def without_tail(disk: FakeFileSystem, base_offset: int) -> None:
    """The last batch of a segment's log is lost in a power failure."""
    after_power_failure(disk)
    file = disk.open(f"data/t-0/{base_offset:020d}.log", writable=True)
    file.truncate(file.size() - len(batch(b"10", b"11")))
    file.close()


def recorded(log: PartitionLog) -> int | None:
    return log.integrity.known.gap_checkpoint


def bases(log: PartitionLog) -> list[int]:
    return [one.base_offset for one in log.segments.values]


def test_the_files_name_is_one_that_kafka_removes_and_that_no_recovery_of_ours_does() -> None:
    """To Kafka it is an index, and the log with its base offset does not exist."""
    base, _, rest = INTEGRITY.partition(".")
    assert int(base) == MAX_OFFSET
    assert rest.endswith(".index")
    assert parse_file_name(INTEGRITY) is None
    disk = FakeFileSystem()
    fill(open_log(disk, COMPACTED), 20)
    assert recorded(open_log(disk.crash(CrashMode.KEEP), COMPACTED)) == 0


def test_only_the_first_roll_of_a_compacted_log_waits_for_the_disk() -> None:
    disk = RecordingFileSystem(FakeFileSystem())
    log = open_log(disk, COMPACTED)
    fill(log, 1)
    before = len(disk.calls)
    log.writer.roll(NOW_MS)
    synced = [one.path for one in disk.calls[before:] if one.kind is IoKind.SYNC]
    assert synced == [FILE + ".tmp"]
    before = len(disk.calls)
    fill(log, 20)
    assert len(log.segments) > 4
    kinds = {one.kind for one in disk.calls[before:]}
    assert not kinds & {IoKind.SYNC, IoKind.SYNC_DIRECTORY}


def test_a_log_that_is_not_compacted_needs_none() -> None:
    disk = FakeFileSystem()
    fill(open_log(disk), 20)
    assert recorded(open_log(disk.crash(CrashMode.KEEP))) is None


def test_a_segment_after_a_lost_tail_is_dropped() -> None:
    disk = FakeFileSystem()
    log = open_log(disk, COMPACTED)
    fill(log, 20)
    first, second = bases(log)[:2]
    disk = disk.crash(CrashMode.KEEP)
    without_tail(disk, first)
    assert open_log(disk, COMPACTED).log_end_offset == second - 2


def test_gaps_that_a_leader_has_are_kept_by_who_follows_it() -> None:
    """No segment begins with a gap before it, so none is taken for a hole."""
    disk = FakeFileSystem()
    log = open_log(disk, COMPACTED)
    for offset in range(0, 400, 10):
        log.writer.append_as_follower(batch(b"%d" % offset, base_offset=offset), now_ms=NOW_MS)
        log.writer.write_out()
    assert len(log.segments) > 5
    again = open_log(disk.crash(CrashMode.KEEP), COMPACTED)
    assert values(again) == [b"%d" % offset for offset in range(0, 400, 10)]
    disk = disk.crash(CrashMode.KEEP)
    after_power_failure(disk)
    without = disk.open(log.segments.values[1].log.path, writable=True)
    without.truncate(0)
    lost_from = log.segments.values[1].base_offset
    assert open_log(disk, COMPACTED).log_end_offset == lost_from


def test_a_batch_too_far_away_for_an_index_begins_a_segment_that_is_kept() -> None:
    disk = FakeFileSystem()
    log = open_log(disk, COMPACTED)
    far = 1 << 32
    for offset in (0, far, far + 1):
        log.writer.append_as_follower(batch(b"%d" % offset, base_offset=offset), now_ms=NOW_MS)
        log.writer.write_out()
    log.writer.roll(NOW_MS)
    assert bases(log) == [0, far, far + 2]
    assert bases(open_log(disk.crash(CrashMode.STRICT), COMPACTED)) == [0]
    assert bases(open_log(disk.crash(CrashMode.KEEP), COMPACTED)) == [0, far, far + 2]


def test_a_log_that_skips_offsets_at_its_end_is_flushed_and_keeps_what_comes_after() -> None:
    disk = FakeFileSystem()
    log = open_log(disk, COMPACTED)
    fill(log, 1)
    log.writer.roll(NOW_MS, base_offset=100)
    assert log.offsets.recovery_point == 2
    log.offsets.appended(100)
    fill(log, 1)
    again = open_log(disk.crash(CrashMode.KEEP), COMPACTED)
    assert values(again) == [b"0", b"1", b"100", b"101"]


def test_after_a_cut_a_hole_is_known_again() -> None:
    """The file spoke of segments that are gone."""
    disk = FakeFileSystem()
    log = open_log(disk, COMPACTED)
    fill(log, 1)
    log.writer.roll(NOW_MS, base_offset=100)
    log.offsets.appended(100)
    fill(log, 1)
    log.maintenance.truncate_to(2, now_ms=NOW_MS)
    fill(log, 20)
    assert recorded(log) == 2
    second = bases(log)[1]
    disk = disk.crash(CrashMode.KEEP)
    without_tail(disk, 0)
    assert open_log(disk, COMPACTED).log_end_offset == second - 2


def test_an_emptied_log_continues_without_gaps() -> None:
    disk = FakeFileSystem()
    log = open_log(disk, COMPACTED)
    fill(log, 20)
    log.maintenance.truncate_fully_and_start_at(7, now_ms=NOW_MS)
    fill(log, 20)
    assert recorded(log) == 7
    assert open_log(disk.crash(CrashMode.KEEP), COMPACTED).log_end_offset == 47


def test_a_topic_that_becomes_compacted_keeps_what_is_known_of_its_gaps() -> None:
    disk = FakeFileSystem()
    log = open_log(disk)
    fill(log, 20)
    log.maintenance.reconfigure(COMPACTED)
    first, second = bases(log)[:2]
    disk = disk.crash(CrashMode.KEEP)
    without_tail(disk, first)
    assert open_log(disk, COMPACTED).log_end_offset == second - 2


def test_a_damaged_file_is_named_and_nothing_is_dropped(caplog: pytest.LogCaptureFixture) -> None:
    disk = FakeFileSystem()
    log = open_log(disk, COMPACTED)
    fill(log, 20)
    end = log.log_end_offset
    disk = disk.crash(CrashMode.KEEP)
    file = disk.open(FILE, writable=True)
    file.pwrite(b"1", 0)
    file.close()
    without_tail(disk, 0)
    assert open_log(disk, COMPACTED).log_end_offset == end
    assert f"{FILE} at byte 0" in caplog.text


def test_a_check_names_the_segments_that_the_next_start_would_drop() -> None:
    disk = FakeFileSystem()
    log = open_log(disk, COMPACTED)
    fill(log, 20)
    disk = disk.crash(CrashMode.KEEP)
    without_tail(disk, 0)
    (gap,) = [one for one in check(disk, "data").findings if one.kind is FindingKind.GAP]
    assert gap.path == log.segments.values[1].log.path


def test_a_check_names_a_damaged_file_and_a_dump_prints_a_sound_one() -> None:
    disk = FakeFileSystem()
    fill(open_log(disk, COMPACTED), 20)
    disk = disk.crash(CrashMode.KEEP)
    assert PropertyRow(name="gap_checkpoint", value="0") in list(dump_file(disk, FILE))
    file = disk.open(FILE, writable=True)
    file.pwrite(b"1", 0)
    file.close()
    found = [one for one in check(disk, "data").findings if one.kind is FindingKind.CHECKPOINT]
    assert [one.path for one in found] == [FILE]
