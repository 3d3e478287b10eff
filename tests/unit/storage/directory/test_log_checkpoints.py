"""What the checkpoints of a directory say at the next start, of logs that come and go meanwhile."""

from collections.abc import Callable

import pytest

from ottla.base.files import join, replace_file
from ottla.base.partitions import TopicPartition
from ottla.storage.directory.log_checkpoints import LogCheckpoints
from ottla.storage.directory.log_directory import LogDirectory
from ottla.storage.files.checkpoints import OffsetCheckpoint
from ottla.storage.files.filenames import (
    CHECKPOINT_CLEANER,
    CHECKPOINT_HIGH_WATERMARK,
    CHECKPOINT_LOG_START,
    CHECKPOINT_RECOVERY_POINT,
)
from ottla.testing import CrashMode, FakeFileSystem
from tests.support.logs import DIRECTORY, TOPIC_ID, fill, open_directory
from tests.support.turns import with_others_in_between

KEY = TopicPartition("t", 0)
NAMES = (CHECKPOINT_RECOVERY_POINT, CHECKPOINT_HIGH_WATERMARK, CHECKPOINT_LOG_START)


@pytest.fixture
def disk() -> FakeFileSystem:
    return FakeFileSystem()


@pytest.fixture
def directory(disk: FakeFileSystem) -> LogDirectory:
    directory = open_directory(disk)
    fill(directory.create_log(*KEY, TOPIC_ID), 6)
    return directory


def written(disk: FakeFileSystem, name: str) -> dict[TopicPartition, int]:
    return OffsetCheckpoint(disk, join(DIRECTORY, name)).read()


def read_again(disk: FakeFileSystem) -> LogCheckpoints:
    return open_directory(disk.crash(CrashMode.KEEP)).checkpoints


def test_recovery_points_are_of_what_is_flushed_and_starts_of_what_was_deleted(
    disk: FakeFileSystem, directory: LogDirectory
) -> None:
    log = directory.logs[KEY]
    log.writer.flush()
    fill(log, 1)
    log.maintenance.delete_records_before(3)
    directory.checkpoints.write()
    assert written(disk, CHECKPOINT_RECOVERY_POINT) == {KEY: 12}
    assert written(disk, CHECKPOINT_HIGH_WATERMARK) == {KEY: 14}
    assert written(disk, CHECKPOINT_LOG_START) == {KEY: 3}


@pytest.mark.parametrize(
    "name", [CHECKPOINT_RECOVERY_POINT, CHECKPOINT_HIGH_WATERMARK, CHECKPOINT_CLEANER]
)
def test_a_damaged_file_counts_as_empty_and_is_named(
    name: str, disk: FakeFileSystem, directory: LogDirectory, caplog: pytest.LogCaptureFixture
) -> None:
    directory.checkpoints.write()
    replace_file(disk, join(DIRECTORY, name), b"0\n9\n")
    checkpoints = read_again(disk)
    assert f"{name} at byte" in caplog.text
    assert KEY in checkpoints.named.partitions(), "the other files name it too"


def test_a_cleaners_offset_after_the_end_of_a_log_is_forgotten(
    disk: FakeFileSystem, directory: LogDirectory, caplog: pytest.LogCaptureFixture
) -> None:
    directory.checkpoints.move_cleaned(KEY, 13)
    checkpoints = read_again(disk)
    assert checkpoints.cleaned == {}
    assert "t-0 ends before its first dirty offset" in caplog.text


def test_a_log_that_is_deleted_is_not_in_the_files_when_its_name_comes_again(
    disk: FakeFileSystem, directory: LogDirectory
) -> None:
    directory.logs[KEY].writer.flush()
    directory.checkpoints.write()
    directory.delete_logs([KEY])
    assert KEY in written(disk, CHECKPOINT_RECOVERY_POINT), "not written for each deletion"
    directory.create_log(*KEY, TOPIC_ID)
    assert written(disk, CHECKPOINT_RECOVERY_POINT).get(KEY, 0) == 0


def test_a_log_that_was_cut_has_no_recovery_point_after_its_end(
    disk: FakeFileSystem, directory: LogDirectory
) -> None:
    log = directory.logs[KEY]
    log.writer.flush()
    directory.checkpoints.write()
    log.maintenance.truncate_to(4, now_ms=0)
    assert written(disk, CHECKPOINT_RECOVERY_POINT) == {KEY: 4}


def _delete_and_create(directory: LogDirectory) -> None:
    directory.delete_logs([KEY])
    directory.create_log(*KEY, TOPIC_ID)


def _cut(directory: LogDirectory) -> None:
    directory.logs[KEY].maintenance.truncate_to(2, now_ms=0)


def _empty(directory: LogDirectory) -> None:
    directory.logs[KEY].maintenance.truncate_fully_and_start_at(0, now_ms=0)


@pytest.mark.parametrize("change", [_delete_and_create, _cut, _empty])
def test_whatever_shortens_a_log_between_two_steps_no_file_says_what_was_before(
    change: Callable[[LogDirectory], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ottla.storage.directory.log_checkpoints.LOGS_PER_STEP", 1)
    monkeypatch.setattr("ottla.storage.files.checkpoints.LINES_PER_STEP", 1)
    step_count = 0
    for when in range(100):
        disk = FakeFileSystem()
        directory = open_directory(disk)
        for topic in "st":
            log = directory.create_log(topic, 0, TOPIC_ID)
            fill(log, 6)
            log.writer.flush()
            log.maintenance.delete_records_before(3)
        for step_count, _ in enumerate(directory.checkpoints.write_in_steps()):
            if step_count == when:
                change(directory)
        if when > step_count:
            break
        end = directory.logs[KEY].log_end_offset
        assert end < 3
        for name in NAMES:
            assert written(disk, name).get(KEY, 0) <= end, f"{name} after step {when}"
    assert step_count > 10


def test_logs_that_are_made_while_others_are_named_are_named_too(
    disk: FakeFileSystem, directory: LogDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long the names of thousands take: the later ones may be written first, or last."""
    monkeypatch.setattr("ottla.base.turns.MOST_AT_ONCE", 1)
    for topic in "abc":
        directory.create_log(topic, 0, TOPIC_ID)
    for when in range(100):
        name, suspensions = f"new-{when}", 0

        def others(when: int = when, name: str = name) -> None:
            nonlocal suspensions
            suspensions += 1
            if suspensions == when + 1:
                directory.create_log(name, 0, TOPIC_ID)
                directory.checkpoints.name_created()

        with with_others_in_between(others):
            directory.checkpoints.name_created()
        named = written(disk, CHECKPOINT_RECOVERY_POINT)
        assert named.keys() == directory.logs.keys()
        if suspensions <= when:
            break
    assert len(directory.logs) > 5
    assert not [one for one in disk.list(DIRECTORY) if one.endswith(".tmp")]
