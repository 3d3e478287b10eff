"""Whole segments that are read several at a time: only those in which nothing is unusual."""

import errno
from collections.abc import Callable
from itertools import pairwise

import pytest

from ottla.base.files import File
from ottla.storage.log import segment_run
from ottla.storage.log.partition_log import PartitionLog
from ottla.storage.log.segment_run import SegmentRun
from ottla.testing import FakeFileSystem
from tests.support.log_transactions import Transactions
from tests.support.logs import NOW_MS, batch, fill, leave_to_tier, open_log, read_all

SIZE = 100_000


@pytest.fixture
def disk() -> FakeFileSystem:
    return FakeFileSystem()


@pytest.fixture
def log(disk: FakeFileSystem) -> PartitionLog:
    return filled(disk)


def filled(disk: FakeFileSystem) -> PartitionLog:
    """As a process finds it that has not written it, with all files closed."""
    log = open_log(disk)
    fill(log, 40)
    log.writer.flush()
    assert len(log.segments) > 5
    assert not log.reader.aborted_transactions(0, 1)  # so that all know that they have no index
    found_before(log)
    return log


def found_before(log: PartitionLog) -> None:
    for segment in log.segments.values:
        segment.forget_checks(segment.size)
        segment.let_go_at_once()


def bases(log: PartitionLog) -> list[int]:
    return [one.base_offset for one in log.segments.values]


def run_at(log: PartitionLog, offset: int, max_size: int = SIZE) -> SegmentRun:
    run = log.reader.run_at(offset, max_size)
    assert run is not None
    return run


def offsets_of(run: SegmentRun) -> list[tuple[int, int]]:
    read = run.read()
    assert read is not None
    return [(batch.base_offset, batch.last_offset) for batch in read[1]]


def test_all_segments_but_the_active_one_are_read_at_once(log: PartitionLog) -> None:
    run = run_at(log, 0)
    assert run.next_offset == bases(log)[-1]
    assert offsets_of(run) == [(first, first + 1) for first in range(0, bases(log)[-1], 2)]


def test_a_run_begins_and_ends_where_segments_do(log: PartitionLog) -> None:
    _, second, third, *_ = bases(log)
    size = log.segments.values[1].log.size
    assert log.reader.run_at(1, SIZE) is None
    assert log.reader.run_at(second, size - 1) is None
    assert run_at(log, second, size).next_offset == third
    assert log.reader.run_at(bases(log)[-1], SIZE) is None
    assert log.reader.run_at(log.log_end_offset, SIZE) is None


def test_a_run_has_no_more_segments_than_a_process_can_spare_descriptors_for(
    log: PartitionLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segment_run, "MAX_COUNT", 2)
    assert run_at(log, 0).next_offset == bases(log)[2]


class CountedFiles(FakeFileSystem):
    def __init__(self) -> None:
        super().__init__()
        self.opened: list[str] = []
        self.left = 1000

    def open(self, path: str, *, writable: bool = False, create: bool = False) -> File:
        if not self.left:
            raise OSError(errno.EMFILE, "none is left", path)
        self.left -= 1
        self.opened.append(path)
        return super().open(path, writable=writable, create=create)


def test_each_segment_is_opened_once_without_its_indexes_and_not_kept_open() -> None:
    disk = CountedFiles()
    log = filled(disk)
    kept, disk.opened = disk.open_files.count, []
    offsets_of(run_at(log, 0))
    assert disk.opened == [one.log.path for one in log.segments.values[:-1]]
    assert disk.open_files.count == kept


def test_a_run_ends_where_descriptors_do() -> None:
    disk = CountedFiles()
    log = filled(disk)
    disk.left = 3
    assert run_at(log, 0).next_offset == bases(log)[3]
    assert log.reader.run_at(bases(log)[3], SIZE) is None


def change(disk: FakeFileSystem, path: str, position: int, data: bytes) -> None:
    disk.open(path, writable=True).pwrite(data, position)


def cut(disk: FakeFileSystem, path: str) -> None:
    file = disk.open(path, writable=True)
    file.truncate(file.size() - 1)


CHANGES: dict[str, Callable[[FakeFileSystem, str], None]] = {
    "a file that is cut": cut,
    "another offset": lambda disk, path: change(disk, path, 7, b"\x63"),
    "another size": lambda disk, path: change(disk, path, 11, b"\x01"),
    "another epoch": lambda disk, path: change(disk, path, 15, b"\x01"),
    "an old format": lambda disk, path: change(disk, path, 16, b"\x01"),
    "another checksum": lambda disk, path: change(disk, path, 17, b"\x01\x02"),
    "another record": lambda disk, path: change(disk, path, 70, b"\x01\x02"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_run_with_an_unusual_segment_is_left_to_single_reads(
    disk: FakeFileSystem, log: PartitionLog, name: str
) -> None:
    CHANGES[name](disk, log.segments.values[1].log.path)
    assert run_at(log, 0).read() is None
    assert offsets_of(run_at(log, bases(log)[2]))[0][0] == bases(log)[2]


def test_a_run_ends_before_a_file_that_is_gone(disk: FakeFileSystem, log: PartitionLog) -> None:
    second = log.segments.values[1]
    disk.remove(second.log.path)
    assert run_at(log, 0).next_offset == second.base_offset
    assert log.reader.run_at(second.base_offset, SIZE) is None


def test_what_was_found_is_read_also_after_retention_has_deleted_it(log: PartitionLog) -> None:
    run = run_at(log, 0)
    log.maintenance.delete_records_before(bases(log)[3])
    for gone in log.maintenance.delete_segments_below_start():
        gone.remove()
    assert offsets_of(run)[0] == (0, 1)
    assert log.reader.run_at(0, SIZE) is None


def test_segments_that_only_a_tier_has_are_not_read(log: PartitionLog) -> None:
    start = leave_to_tier(log, 2)
    assert log.reader.run_at(0, SIZE) is None
    assert offsets_of(run_at(log, start))[0][0] == start


def test_a_segment_with_batches_of_several_epochs_is_read_alone(log: PartitionLog) -> None:
    first, second, third, *_ = bases(log)
    log.epochs.assign(1, second + 2)
    assert run_at(log, first).next_offset == second
    assert log.reader.run_at(second, SIZE) is None
    assert run_at(log, third).read() is None, "these batches are of the epoch before"


def test_a_run_ends_before_an_open_transaction_and_tells_of_aborted_ones(
    disk: FakeFileSystem,
) -> None:
    log = open_log(disk)
    transactions = Transactions(log)
    for producer_id in (1, 2):
        transactions.write(producer_id)
        fill(log, 5)
        transactions.end(producer_id, is_commit=False)
    open_at = log.log_end_offset
    transactions.write(3)
    fill(log, 10)
    run = run_at(log, 0)
    following = dict(pairwise(bases(log)))
    assert run.next_offset <= open_at < following[run.next_offset]
    told = log.reader.aborted_transactions(0, run.next_offset)
    assert list(run.aborted) == told
    assert {one.producer_id for one in told} == {1, 2}
    offsets_of(run)


def test_offsets_may_be_missing_only_where_headers_were_checked_before() -> None:
    disk = FakeFileSystem()
    written = open_log(disk)
    for offset in range(0, 60, 3):
        records = batch(b"one", base_offset=offset, leader_epoch=0)
        written.writer.append_as_follower(records, now_ms=NOW_MS)
    written.writer.write_out()
    offsets = [(one, one) for one in range(0, 60, 3) if one < bases(written)[-1]]
    assert offsets_of(run_at(written, 0)) == offsets
    written.writer.flush()
    found_before(written)
    assert run_at(written, 0).read() is None
    read_all(written)
    assert offsets_of(run_at(written, 0)) == offsets


def test_the_file_of_a_batch_is_told(log: PartitionLog) -> None:
    run = run_at(log, 0)
    read = run.read()
    assert read is not None
    segments = [log.segments.floor(one.base_offset) for one in read[1]]
    assert [run.file_of(one).file.path for one in read[1]] == [
        one.log.path for one in segments if one is not None
    ]
