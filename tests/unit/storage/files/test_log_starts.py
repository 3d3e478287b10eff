"""Where logs start: Kafka's checkpoint, and a copy of it that has a checksum."""

import pytest

from ottla.base.files import join, remove_if_present, replace_file
from ottla.base.partitions import TopicPartition
from ottla.storage.files.checkpoints import OffsetCheckpoint, offsets_text
from ottla.storage.files.filenames import CHECKPOINT_LOG_START, COPIED_LOG_STARTS
from ottla.storage.files.log_starts import LogStarts
from ottla.testing import CrashMode, FakeFileSystem

A, B = TopicPartition("a", 0), TopicPartition("b", 0)


@pytest.fixture
def disk() -> FakeFileSystem:
    disk = FakeFileSystem()
    disk.make_directory("data")
    disk.sync_directory("/")
    LogStarts(disk, "data").replace({A: 7}, offsets_text({A: 7}))
    return disk


def starts(disk: FakeFileSystem) -> LogStarts:
    found = LogStarts(disk, "data")
    found.read()
    return found


def test_what_is_written_is_durable_in_both_files(disk: FakeFileSystem) -> None:
    found = starts(disk.crash(CrashMode.STRICT))
    assert found.known == {A}
    assert not found.are_lost
    assert [found.start_of(A, is_copy_valid=valid) for valid in (True, False)] == [7, 7]
    assert found.start_of(B, is_copy_valid=True) == 0


def test_the_copy_counts_where_the_checkpoint_differs_unless_kafka_was_there(
    disk: FakeFileSystem, caplog: pytest.LogCaptureFixture
) -> None:
    OffsetCheckpoint(disk, join("data", CHECKPOINT_LOG_START)).write({A: 8})
    found = starts(disk)
    assert found.start_of(A, is_copy_valid=False) == 8
    assert caplog.text == ""
    assert found.start_of(A, is_copy_valid=True) == 7
    assert "a-0 starts at 8" in caplog.text


def test_without_both_files_the_starts_are_lost(disk: FakeFileSystem) -> None:
    remove_if_present(disk, join("data", COPIED_LOG_STARTS))
    assert not starts(disk).are_lost
    remove_if_present(disk, join("data", CHECKPOINT_LOG_START))
    assert starts(disk).are_lost


def test_a_damaged_copy_says_nothing(
    disk: FakeFileSystem, caplog: pytest.LogCaptureFixture
) -> None:
    replace_file(disk, join("data", COPIED_LOG_STARTS), b"0\n1\na 0 9\n00000000\n")
    assert starts(disk).start_of(A, is_copy_valid=True) == 7
    assert COPIED_LOG_STARTS in caplog.text


def test_a_copy_is_brought_to_what_was_read(disk: FakeFileSystem) -> None:
    found = starts(disk)
    found.keep({A: 9, B: 0})
    assert starts(disk).start_of(A, is_copy_valid=True) == 9
    assert starts(disk).start_of(A, is_copy_valid=False) == 7
