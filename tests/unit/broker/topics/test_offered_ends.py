"""How far records of a log are offered that a reader of files follows."""

import random

import pytest

from ottla.base.files import join, replace_file
from ottla.broker.topics.offered_ends import StableEnds
from ottla.config.topic import TopicConfig
from ottla.storage.directory.log_directory import LogDirectory
from ottla.storage.files.filenames import METADATA_MARK
from ottla.storage.reading.read_only_directory import open_for_reading
from ottla.storage.reading.read_only_log import ReadOnlyLog
from ottla.testing import FakeFileSystem, RecordingFileSystem
from ottla.testing.recording import RecordingFile
from tests.support.log_transactions import Transactions
from tests.support.logs import (
    DIRECTORY,
    NOW_MS,
    SMALL,
    TOPIC_ID,
    append,
    batch,
    fill,
    open_directory,
)


class CountedFile(RecordingFile):
    def pread(self, size: int, position: int) -> bytes:
        data = super().pread(size, position)
        assert isinstance(self._system, Counting)
        self._system.size += len(data)
        return data


class Counting(RecordingFileSystem):
    """Counts the bytes that are read."""

    size = 0

    def open(self, path: str, *, writable: bool = False, create: bool = False) -> RecordingFile:
        return CountedFile(self, self.inner.open(path, writable=writable, create=create))


@pytest.fixture
def disk() -> FakeFileSystem:
    return FakeFileSystem()


@pytest.fixture
def directory(disk: FakeFileSystem) -> LogDirectory:
    """One of Ottla's, which is offered to its end."""
    directory = open_directory(disk, SMALL)
    replace_file(disk, join(DIRECTORY, METADATA_MARK), b"")
    return directory


def listed(disk: FakeFileSystem | Counting) -> ReadOnlyLog:
    return open_for_reading(DIRECTORY, disk).partition("t", 0)


def bytes_read(disk: FakeFileSystem, ends: StableEnds) -> int:
    counting = Counting(disk)
    ends.committed_end(listed(counting))
    return counting.size


def test_what_has_grown_is_walked_and_not_what_was_there_before(
    disk: FakeFileSystem,
) -> None:
    directory = open_directory(disk, TopicConfig())
    replace_file(disk, join(DIRECTORY, METADATA_MARK), b"")
    transactions = Transactions(directory.create_log("t", 0, TOPIC_ID))
    transactions.write(1)
    for _ in range(2000):
        transactions.write(2)
    ends = StableEnds()
    first = bytes_read(disk, ends)
    transactions.write(2)
    assert bytes_read(disk, ends) < first / 4
    assert ends.committed_end(listed(disk)) == 0
    transactions.end(1, is_commit=False)
    transactions.end(2, is_commit=True)
    log = listed(disk)
    assert ends.committed_end(log) == log.log_end_offset
    assert [one.producer_id for one in log.transactions.aborted(0, log.log_end_offset)] == [1]


@pytest.mark.parametrize("seed", range(8))
def test_a_log_that_is_followed_offers_what_one_does_that_is_walked_again(
    seed: int, disk: FakeFileSystem, directory: LogDirectory
) -> None:
    chance = random.Random(seed)
    log = directory.create_log("t", 0, TOPIC_ID)
    transactions, ends, is_open = Transactions(log), StableEnds(), dict.fromkeys((1, 2, 3), False)
    for _ in range(60):
        producer = chance.choice((1, 2, 3))
        match chance.randrange(6):
            case 0 | 1:
                transactions.write(producer)
                is_open[producer] = True
            case 2 if is_open[producer]:
                transactions.end(producer, is_commit=chance.random() < 0.5)
                is_open[producer] = False
            case 3:
                append(log, b"%d" % log.log_end_offset)
            case 4 if chance.random() < 0.2:
                log.writer.flush()
                directory.checkpoints.write()
            case 5 if chance.random() < 0.2 and log.log_start_offset < log.last_stable_offset:
                log.maintenance.delete_records_before(log.log_start_offset + 1)
        followed, fresh = listed(disk), listed(disk)
        assert ends.committed_end(followed) == StableEnds().committed_end(fresh)
        bounds = followed.log_start_offset, followed.transactions.last_stable_offset
        found = followed.transactions.aborted(*bounds)
        assert found == fresh.transactions.aborted(*bounds)


def test_a_log_that_was_cut_under_another_leader_is_walked_again(
    disk: FakeFileSystem, directory: LogDirectory
) -> None:
    log = directory.create_log("t", 0, TOPIC_ID)
    transactions = Transactions(log)
    fill(log, 2)
    transactions.write(1)
    ends = StableEnds()
    assert ends.committed_end(listed(disk)) == 4
    log.maintenance.truncate_to(4, now_ms=NOW_MS)
    log.writer.append_as_leader(batch(b"4", b"5"), leader_epoch=7, now_ms=NOW_MS)
    log.writer.write_out()
    assert ends.committed_end(listed(disk)) == 6
