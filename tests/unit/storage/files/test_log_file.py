"""Files that stay open between two requests: few, and never one closed that is to be synced."""

import errno
import os
from pathlib import Path

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.files import OsFileSystem, join
from ottla.base.open_files import LEAST_OPEN, OpenFiles
from ottla.metadata.deciding.topics import NewTopic
from ottla.storage.files.log_file import LogFile
from ottla.storage.index.offset_index import OffsetIndex
from ottla.testing import FakeFileSystem
from ottla.testing.file_system import FakeFile
from tests.support.brokers import batch, disk, open_broker


class Kept:
    """A holder that counts how often it was asked."""

    def __init__(self, *, may_go: bool = True) -> None:
        self.may_go = may_go
        self.asked = 0

    def let_go(self) -> bool:
        self.asked += 1
        return self.may_go


def test_beyond_the_limit_the_longest_unused_are_closed() -> None:
    open_files = OpenFiles(limit=8)
    holders = [Kept() for _ in range(9)]
    for holder in holders[:8]:
        open_files.opened(holder)
    assert not open_files.is_over
    open_files.opened(holders[8])
    assert open_files.is_over
    open_files.give_back()
    assert [one.asked for one in holders] == [1, 1, 0, 0, 0, 0, 0, 0, 0]
    assert (open_files.count, open_files.is_over, open_files.is_short) == (7, False, False)


def test_where_all_wait_for_a_sync_it_is_said_so_and_at_last_no_more_are_written() -> None:
    open_files = OpenFiles(limit=4)
    holders = [Kept(may_go=False) for _ in range(8)]
    for holder in holders:
        open_files.opened(holder)
    open_files.give_back()
    assert open_files.is_short
    assert open_files.is_full
    holders[0].may_go = True
    open_files.give_back()
    assert not open_files.is_full


def test_what_was_closed_otherwise_is_not_counted_twice() -> None:
    open_files = OpenFiles(limit=4)
    holder = Kept()
    open_files.opened(holder, 5)
    open_files.opened(holder, 5)
    assert open_files.count == 5
    open_files.closed(holder)
    open_files.closed(holder)
    assert open_files.count == 0


def test_a_process_without_descriptors_keeps_fewer_files_from_then_on() -> None:
    open_files = OpenFiles(limit=1000)
    for _ in range(100):
        open_files.opened(Kept())
    open_files.ran_out()
    open_files.give_back()
    assert LEAST_OPEN <= open_files.count <= 50


@pytest.fixture(params=["os", "fake"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> LogFile:
    file_system = OsFileSystem() if request.param == "os" else FakeFileSystem()
    file_system.make_directory(str(tmp_path))
    return LogFile.open(file_system, join(str(tmp_path), "0.log"), create=True)


def test_a_file_stays_open_until_what_was_written_to_it_is_synced(log: LogFile) -> None:
    log.append(b"pending")
    assert not log.let_go()
    log.write_out()
    assert not log.let_go()
    assert not log.let_go()
    log.sync()
    assert not log.let_go(), "it was used since the last time"
    assert log.let_go()
    assert log.read(0, 7) == b"pending"


def test_a_file_that_was_synced_through_another_descriptor_may_go(log: LogFile) -> None:
    log.append(b"written")
    log.write_out()
    log.let_go()
    log.synced()
    assert log.let_go()
    log.append(b", and more")
    log.synced()
    assert not log.let_go(), "what was appended since is not on the disk"
    log.write_out()
    assert log.read(0, 100) == b"written, and more"


def test_an_answer_can_still_be_sent_of_a_file_that_was_let_go(tmp_path: Path) -> None:
    log = LogFile.open(OsFileSystem(), str(tmp_path / "0.log"), create=True)
    log.append(b"answer")
    log.sync()
    quoted = log.slice(0, 6)
    log.let_go()
    assert log.let_go()
    descriptor = quoted.file.fileno()
    assert quoted.read() == b"answer"
    del quoted
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)


def test_a_log_that_was_closed_is_not_opened_again(log: LogFile) -> None:
    log.let_go_at_once()
    log.close()
    with pytest.raises(OSError, match="closed"):
        log.read(0, 1)


def test_a_renamed_file_is_found_again(log: LogFile) -> None:
    log.append(b"here")
    log.sync()
    log.let_go_at_once()
    log.rename(log.path + ".deleted")
    assert log.read(0, 4) == b"here"


def test_partitions_that_nobody_uses_take_no_descriptors() -> None:
    file_system = disk("/d")
    broker = open_broker(file_system)
    broker.admin.create_topic(NewTopic(name="t", partition_count=50))
    assert file_system.open_files.count == 0
    broker.appends.append(broker.topics.partition("t", 7), batch(), now_ms=1)
    broker.appends.write_out()
    assert file_system.open_files.count > 0
    broker.close()
    assert file_system.open_files.count == 0
    open_broker(file_system)
    assert file_system.open_files.count == 0


def test_more_partitions_than_may_be_open_are_written_flushed_and_read() -> None:
    file_system = disk("/d")
    file_system.open_files.limit = 10
    broker = open_broker(file_system)
    broker.admin.create_topic(NewTopic(name="t", partition_count=60))
    for _ in range(3):
        for index in range(60):
            broker.appends.append(broker.topics.partition("t", index), batch(), now_ms=1)
            broker.appends.write_out()
            broker.topics.partition("t", index).log.writer.flush()
            assert file_system.open_files.count <= 10 + 6
    for index in range(60):
        assert broker.topics.partition("t", index).log.log_end_offset == 3


def test_a_segment_whose_empty_indexes_were_closed_does_not_take_them_for_full() -> None:
    broker = open_broker(disk("/d"))
    log = broker.admin.create_topic(NewTopic(name="t", partition_count=1)).partitions[0].log
    for _ in range(3):
        broker.appends.append(broker.topics.partition("t", 0), batch(), now_ms=1)
        broker.appends.write_out()
        log.writer.flush()
        log.maintenance.release_files()
    assert log.segments.active.base_offset == 0


class MapsNothingOnce(FakeFileSystem):
    """As a process that has no memory for a map, and then has some again."""

    is_short = False

    def open(self, path: str, *, writable: bool = False, create: bool = False) -> FakeFile:
        file = super().open(path, writable=writable, create=create)
        if self.is_short and path.endswith("index"):
            self.is_short = False
            raise OSError(errno.ENOMEM, "out of memory", path)
        return file


def test_an_append_without_memory_for_an_index_is_refused_and_the_next_continues() -> None:
    file_system = MapsNothingOnce()
    file_system.make_directory("/d")
    broker = open_broker(file_system)
    log = broker.admin.create_topic(NewTopic(name="t", partition_count=1)).partitions[0].log
    broker.appends.append(broker.topics.partition("t", 0), batch(), now_ms=1)
    broker.appends.write_out()
    log.writer.flush()
    log.maintenance.release_files()
    file_system.is_short = True
    with pytest.raises(ApiError, match="disk") as refused:
        broker.appends.append(broker.topics.partition("t", 0), batch(), now_ms=1)
    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    broker.appends.append(broker.topics.partition("t", 0), batch(), now_ms=1)
    broker.appends.write_out()
    assert (log.log_end_offset, log.segments.active.base_offset) == (2, 0)


def test_an_index_that_could_not_be_mapped_is_opened_again(monkeypatch: pytest.MonkeyPatch) -> None:
    index = OffsetIndex(disk("/d"), "/d/0.index", base_offset=0, max_index_size=80)
    index.append(5, 100)
    index.close()
    with monkeypatch.context() as patch:
        patch.setattr(FakeFile, "map", _refuse_map)
        with pytest.raises(OSError, match="out of memory"):
            index.lookup(7)
    assert index.lookup(7) == (5, 100)


def _refuse_map(*_: object) -> None:
    raise OSError(errno.ENOMEM, "out of memory")
