"""What is known of a log when recovery hands it over."""

from ottla.testing import CrashMode, FakeFileSystem
from tests.support.logs import NOW_MS, fill, open_log


def test_a_log_knows_its_name_its_size_and_its_files() -> None:
    disk = FakeFileSystem()
    log = open_log(disk)
    fill(log, 20)
    assert log.name == "t-0"
    paths = log.segment_paths
    assert len(paths) == log.segment_count > 3
    assert paths == {base: f"data/t-0/{base:020d}.log" for base in paths}
    sizes = [status.size for path in paths.values() if (status := disk.status(path))]
    assert log.size == sum(sizes)


def test_what_was_ended_before_a_crash_counts_as_not_flushed_up_to_the_active_segment() -> None:
    disk = FakeFileSystem()
    log = open_log(disk)
    fill(log, 20)
    assert log.roll_count > 2
    again = open_log(disk.crash(CrashMode.KEEP))
    assert again.rolled_until == again.segments.active.base_offset
    assert (again.roll_count, again.last_flush_ms) == (0, 0.0)
    assert (again.log_start_offset, again.log_end_offset) == (0, 40)
    assert again.high_watermark == again.last_stable_offset == 40


def test_a_segment_of_the_directory_is_opened_with_the_logs_settings_and_not_added() -> None:
    disk = FakeFileSystem()
    log = open_log(disk)
    fill(log, 20)
    before = log.segments.values[0]
    segment = log.open_segment(before.base_offset, NOW_MS)
    assert segment is not before
    assert (segment.log.path, segment.size) == (before.log.path, before.size)
    assert log.segment_count == log.roll_count + 1
    segment.close_files()
