"""Where a log ends, and in which segment it continues."""

from typing import Any

import pytest

from ottla.base.files import read_file, replace_file
from ottla.storage.recovery.ending import LogEnd, find_end
from ottla.storage.recovery.opened_log import OpenedLog
from ottla.storage.recovery.opening import open_segments
from ottla.storage.recovery.replaying import recover_segments
from ottla.testing import FakeFileSystem
from tests.support.recovering import COUNT, killed, live, opened


@pytest.fixture
def disk() -> FakeFileSystem:
    return killed()


def ended(disk: FakeFileSystem, **known: Any) -> tuple[OpenedLog, LogEnd]:
    log = opened(disk, **known)
    open_segments(log)
    recover_segments(log)
    return log, find_end(log)


def test_after_a_kill_a_log_ends_with_its_last_batch_and_nothing_of_it_counts_as_flushed(
    disk: FakeFileSystem,
) -> None:
    log, end = ended(disk)
    assert end == LogEnd(end_offset=COUNT, recovery_point=0)
    assert log.segments.active.log.path == live(disk, ".log")[-1]


def test_after_a_clean_stop_all_of_it_was_flushed(disk: FakeFileSystem) -> None:
    _, end = ended(disk, was_clean_stop=True, recovery_point=COUNT)
    assert end == LogEnd(end_offset=COUNT, recovery_point=COUNT)


def test_damage_at_the_end_after_a_clean_stop_is_kept_and_the_log_continues_after_it(
    disk: FakeFileSystem, caplog: pytest.LogCaptureFixture
) -> None:
    path = live(disk, ".log")[-1]
    file = disk.open(path, writable=True)
    file.truncate(file.size() - 1)
    file.close()
    before = read_file(disk, path)
    log, end = ended(disk, was_clean_stop=True, recovery_point=COUNT)
    assert (end.end_offset, log.segments.active.base_offset) == (COUNT, COUNT)
    assert read_file(disk, path) == before
    assert "it is kept, and the log continues at offset 20" in caplog.text


def test_an_end_that_was_lost_since_a_clean_stop_is_not_given_out_again(
    disk: FakeFileSystem,
) -> None:
    log, end = ended(disk, was_clean_stop=True, recovery_point=COUNT + 5)
    assert (end.end_offset, log.segments.active.base_offset) == (COUNT + 5, COUNT + 5)


def test_a_log_that_ends_before_its_recorded_start_is_emptied_and_begins_there(
    disk: FakeFileSystem,
) -> None:
    log, end = ended(disk, log_start_offset=100)
    assert end.end_offset == 100
    assert [one.base_offset for one in log.segments.values] == [100]
    assert live(disk, ".log") == ["data/t-0/00000000000000000100.log"]
    assert log.epochs.entries == ()


@pytest.mark.parametrize(
    ("known", "end_offset"),
    [
        ({}, 0),
        ({"log_start_offset": 7}, 7),
        ({"recovery_point": 12, "log_start_offset": 7}, 12),
        ({"reached": 15, "recovery_point": 12}, 15),
        ({"was_clean_stop": True, "recovery_point": 12, "high_watermark": 9}, 9),
    ],
)
def test_a_log_without_files_begins_where_it_is_known_to_have_ended(
    disk: FakeFileSystem, known: dict[str, Any], end_offset: int
) -> None:
    for name in disk.list("data/t-0"):
        disk.remove(f"data/t-0/{name}")
    log, end = ended(disk, **known)
    assert end.end_offset == end_offset
    assert log.segments.active.base_offset == end_offset


def test_where_the_last_file_is_another_segments_the_log_continues_after_it(
    disk: FakeFileSystem,
) -> None:
    first, *_, last = live(disk, ".log")
    replace_file(disk, last, read_file(disk, first))
    log, end = ended(disk, was_clean_stop=True, recovery_point=COUNT)
    assert end.end_offset >= COUNT
    assert log.segments.active.base_offset == end.end_offset
    assert [one.log.path for one in log.wrong_files] == [last]
