"""The logs of a directory: those that are loaded at its start, and those that are made later."""

import dataclasses

from ottla.base.files import FileSystem
from ottla.base.partitions import TopicPartition
from ottla.storage.directory.log_directory import LogDirectory
from ottla.storage.directory.open_options import StartStep
from ottla.testing import (
    CrashMode,
    FakeFileSystem,
)
from tests.support.logs import TOPIC_ID, append, fill, open_directory, values


def directory_with_log(file_system: FileSystem) -> LogDirectory:
    directory = open_directory(file_system)
    fill(directory.create_log("t", 0, TOPIC_ID), 10)
    return directory


def test_a_deletion_that_a_crash_cut_off_is_noted_for_the_job_that_removes() -> None:
    file_system = FakeFileSystem()
    directory_with_log(file_system)
    left = "data/t-0.0123456789abcdef0123456789abcdef-delete"
    file_system.rename("data/t-0", left)
    assert open_directory(file_system.crash(CrashMode.KEEP)).logs == {}
    again = file_system.crash(CrashMode.KEEP)
    directory = open_directory(again)
    assert directory.deleted_paths == [left]


def test_a_creation_that_a_crash_cut_off_is_undone_at_the_next_start() -> None:
    file_system = FakeFileSystem()
    directory_with_log(file_system)
    file_system.make_directory("data/t-1")
    file_system.open("data/t-1/partition.metadata.tmp", create=True).close()
    again = file_system.crash(CrashMode.KEEP)
    assert list(open_directory(again).logs) == [("t", 0)]
    assert again.status("data/t-1") is None


def test_a_recreated_log_knows_nothing_of_the_one_before_it() -> None:
    file_system = FakeFileSystem()
    directory = directory_with_log(file_system)
    directory.logs["t", 0].maintenance.delete_records_before(15)
    directory.logs["t", 0].writer.flush()
    directory.checkpoints.write()
    directory.delete_logs([TopicPartition("t", 0)])
    append(directory.create_log("t", 0, TOPIC_ID), b"new")
    log = open_directory(file_system.crash(CrashMode.KEEP)).logs["t", 0]
    assert (log.log_start_offset, log.offsets.recovery_point) == (0, 0)
    assert values(log) == [b"new"]


def test_a_file_that_is_named_like_a_partition_is_skipped() -> None:
    file_system = FakeFileSystem()
    open_directory(file_system).close()
    file_system.open("data/notes-1", create=True).close()
    assert open_directory(file_system).logs == {}
    assert "notes-1" in file_system.list("data")


def test_a_start_and_a_stop_tell_how_much_is_left() -> None:
    file_system = FakeFileSystem()
    directory = open_directory(file_system)
    for index in range(2):
        fill(directory.create_log("t", index, TOPIC_ID), 10)
    told: list[str] = []
    options = dataclasses.replace(directory._options, on_progress=told.append)
    again = LogDirectory.open("data", file_system.crash(CrashMode.KEEP), options)
    first = "data/t-0/00000000000000000000.log"
    assert told[0].startswith(f"recovering {first} (")
    assert told[0].endswith("left); 2 of 2 logs left")
    assert told[-1] == "loading data: 0 of 2 logs left"
    numbers = [(one.logs_left, one.segments_left) for one in told if isinstance(one, StartStep)]
    assert len(numbers) == len(told)
    assert numbers[0][0] == 2
    assert numbers[0][1] >= 1
    assert numbers[-1] == (0, 0)
    del told[:]
    again.close()
    assert told == ["closing data: 1 of 2 logs left", "closing data: 0 of 2 logs left"]
