"""A log directory as a whole: what it clears up, what it refuses, what it leaves behind."""

import errno

import pytest

from ottla.base.errors import StorageError, UserError
from ottla.base.files import FileSystem, replace_file
from ottla.broker.metadata.log import METADATA_CONFIG
from ottla.storage.directory.log_directory import LogDirectory
from ottla.storage.files.filenames import BOOT_NOTE
from ottla.testing import (
    CrashMode,
    FakeFileSystem,
    FaultPlan,
    FaultyFileSystem,
    IoKind,
)
from ottla.testing.file_system import FakeFile
from tests.support.logs import TOPIC_ID, fill, open_directory, values


def directory_with_log(file_system: FileSystem) -> LogDirectory:
    directory = open_directory(file_system)
    fill(directory.create_log("t", 0, TOPIC_ID), 10)
    return directory


def test_a_second_opener_is_refused_until_the_first_is_gone() -> None:
    file_system = FakeFileSystem()
    first = open_directory(file_system)
    with pytest.raises(UserError, match="in use by another process"):
        open_directory(file_system)
    first.close()
    open_directory(file_system)


def test_a_folder_of_other_files_is_refused_and_left_alone() -> None:
    file_system = FakeFileSystem()
    file_system.make_directory("data")
    replace_file(file_system, "data/letter.txt", b"Dear")
    with pytest.raises(UserError, match=r"no Kafka log \(letter.txt\)"):
        open_directory(file_system)
    assert file_system.list("data") == ["letter.txt"]


def test_a_start_that_fails_before_the_metadata_log_is_opened_leaves_it_to_be_recovered() -> None:
    file_system = FakeFileSystem()
    killed = open_directory(file_system)
    killed.open_metadata_log(METADATA_CONFIG)
    killed.abandon()
    failed = open_directory(file_system)
    assert not failed.was_clean_stop
    failed.close()
    again = open_directory(file_system)
    assert not again.was_clean_stop
    again.open_metadata_log(METADATA_CONFIG)
    again.close()
    assert open_directory(file_system).was_clean_stop


def test_a_disk_that_fails_while_a_directory_is_opened_is_named_and_the_lock_let_go() -> None:
    disk = FakeFileSystem()
    directory_with_log(disk).close()
    recording = FaultyFileSystem(disk.crash(CrashMode.KEEP))
    open_directory(recording)
    # Without the note of the boot, less is known after a kill.
    needed = [one for one, call in enumerate(recording.calls) if BOOT_NOTE not in call.path]
    for at_call in needed:
        plan = FaultPlan(at_call=at_call, error=OSError(errno.EIO, "a fault of the test"))
        copy = disk.crash(CrashMode.KEEP)
        with pytest.raises((StorageError, UserError), match="data"):
            open_directory(FaultyFileSystem(copy, plan))
        assert values(open_directory(copy).logs["t", 0]) == [b"%d" % one for one in range(20)]


class FileSystemThatKeepsFiles(FakeFileSystem):
    def __init__(self) -> None:
        super().__init__()
        self.opened: list[FakeFile] = []

    def open(self, path: str, *, writable: bool = False, create: bool = False) -> FakeFile:
        file = super().open(path, writable=writable, create=create)
        self.opened.append(file)
        return file


def test_a_failed_start_leaves_no_file_open() -> None:
    disk = FileSystemThatKeepsFiles()
    directory_with_log(disk).close()
    fault = FaultPlan(at_call=3, error=OSError(errno.EIO, "a fault of the test"))
    with pytest.raises(StorageError):
        open_directory(FaultyFileSystem(disk, fault))
    for file in [one for one in disk.opened if not one.path.endswith(".lock")]:
        with pytest.raises(OSError, match="Bad file descriptor"):
            file.size()


def test_a_new_directory_whose_properties_cannot_be_written_is_offline_at_once() -> None:
    recording = FaultyFileSystem(FakeFileSystem())
    open_directory(recording)
    at_call = next(
        number for number, call in enumerate(recording.calls) if call.kind is IoKind.RENAME
    )
    plan = FaultPlan(at_call=at_call, error=OSError(errno.ENOSPC, "a fault of the test"))
    with pytest.raises(StorageError, match="data"):
        open_directory(FaultyFileSystem(FakeFileSystem(), plan))


def test_a_use_without_a_cluster_keeps_the_epoch_with_which_a_broker_has_stopped() -> None:
    """Otherwise its cluster would take it for one that has lost records."""
    disk = FakeFileSystem()
    directory = directory_with_log(disk)
    directory.broker_epoch = 7
    directory.close()
    for _ in range(2):
        alone = open_directory(disk)
        assert alone.previous_broker_epoch == 7
        alone.close()
    open_directory(disk).abandon()  # after a crash nobody relies on all records
    recovered = open_directory(disk)
    recovered.close()
    assert recovered.previous_broker_epoch is None
    assert open_directory(disk).previous_broker_epoch == -1
