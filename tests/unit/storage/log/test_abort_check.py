"""Aborts that are in a log and in no index: which they are, and that they are added."""

import pytest

from ottla.storage.files.integrity import IntegrityFile
from ottla.storage.index.transaction_index import AbortedTransaction
from ottla.storage.log.abort_check import (
    SLICE_COUNT,
    AbortCheck,
)
from ottla.storage.log.partition_log import PartitionLog
from ottla.testing import FakeFileSystem
from tests.support.log_transactions import Transactions
from tests.support.logs import NOW_MS, fill, open_log


@pytest.fixture
def disk() -> FakeFileSystem:
    return FakeFileSystem()


def check_of(log: PartitionLog, disk: FakeFileSystem) -> AbortCheck:
    integrity = IntegrityFile(disk, log.directory, None)
    return AbortCheck(log.segments, integrity, log.log_end_offset)


def with_lost_entry(disk: FakeFileSystem) -> tuple[PartitionLog, list[AbortedTransaction]]:
    """One aborted transaction in an ended segment, whose index is empty."""
    log = open_log(disk)
    transactions = Transactions(log)
    transactions.write(1)
    transactions.write(2)
    transactions.end(1, is_commit=False)
    transactions.end(2, is_commit=True)
    log.writer.roll(NOW_MS)
    index = log.segments.first.transaction_index
    entries = list(index.entries)
    assert len(entries) == 1
    index.truncate_to(0)
    assert not index.entries
    return log, entries


def test_an_entry_that_is_missing_is_added(
    disk: FakeFileSystem, caplog: pytest.LogCaptureFixture
) -> None:
    log, entries = with_lost_entry(disk)
    check = check_of(log, disk)
    check.finish()
    assert list(log.segments.first.transaction_index.entries) == entries
    assert check.is_done
    assert check.is_complete
    assert check.bound == log.log_end_offset
    assert "lacks aborted transactions" in caplog.text


def test_what_is_not_looked_at_yet_is_bounded(disk: FakeFileSystem) -> None:
    log = open_log(disk)
    for _ in range(SLICE_COUNT + 10):
        fill(log, 1)
    check = check_of(log, disk)
    bounds = [check.bound]
    while not check.is_done:
        check.advance()
        bounds.append(check.bound)
    assert bounds == sorted(bounds)
    assert (bounds[0], bounds[-1]) == (0, log.log_end_offset)
    assert len(bounds) > 2


def test_damage_ends_the_look_at_its_segment_and_is_logged(
    disk: FakeFileSystem, caplog: pytest.LogCaptureFixture
) -> None:
    log, _ = with_lost_entry(disk)
    file = disk.open(log.segments.first.log.path, writable=True)
    file.pwrite(b"\xff\xff\xff\xff", 8)
    file.close()
    check = check_of(log, disk)
    check.finish()
    assert not check.is_complete
    assert "is unknown" in caplog.text
