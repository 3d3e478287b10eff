"""What became of transactions near a log's end, by its batches."""

import pytest

from ottla.storage.index.producer_snapshot import (
    ProducerSnapshotEntry,
    newest_snapshot,
    write_snapshot,
)
from ottla.storage.index.transaction_index import AbortedTransaction
from ottla.storage.log.transaction_tail import TransactionTail, overlapping
from ottla.testing import FakeFileSystem
from tests.unit.storage.compaction.test_transactions import data, marker


def aborted(producer_id: int, first: int, last: int, stable: int) -> AbortedTransaction:
    return AbortedTransaction(
        producer_id=producer_id, first_offset=first, last_offset=last, last_stable_offset=stable
    )


def test_an_abort_is_listed_with_the_last_stable_offset_that_it_leaves() -> None:
    tail = TransactionTail(0)
    tail.take(data(0, producer_id=1))
    tail.take(data(1, producer_id=2))
    tail.take(marker(2, producer_id=2, is_commit=False))
    tail.take(marker(3, producer_id=1, is_commit=False))
    assert tail.aborted == [aborted(2, 1, 2, 0), aborted(1, 0, 3, 4)]
    assert (tail.open_transactions, tail.next_offset) == ([], 4)


def test_a_commit_and_a_marker_without_data_are_no_abort() -> None:
    tail = TransactionTail(0)
    tail.take(data(0))
    tail.take(marker(1, is_commit=True))
    tail.take(marker(2, is_commit=False))
    tail.take(data(3, is_transactional=False))
    assert tail.aborted == []
    assert tail.first_open_offset is None


def test_open_ones_are_listed_the_oldest_first() -> None:
    tail = TransactionTail(0)
    for offset, producer_id in ((0, 7), (1, 3), (2, 7)):
        tail.take(data(offset, producer_id=producer_id))
    assert [(one.producer_id, one.first_offset) for one in tail.open_transactions] == [
        (7, 0),
        (3, 1),
    ]
    assert tail.first_open_offset == 0


def entry(first_offset: int | None) -> ProducerSnapshotEntry:
    return ProducerSnapshotEntry(
        producer_id=1,
        epoch=0,
        last_sequence=0,
        last_offset=4,
        offset_delta=0,
        timestamp_ms=50,
        coordinator_epoch=0,
        transaction_first_offset=first_offset,
    )


@pytest.fixture
def snapshots() -> tuple[FakeFileSystem, dict[int, str]]:
    disk, paths = FakeFileSystem(), {5: "five", 9: "nine", 20: "twenty"}
    for offset, path in paths.items():
        write_snapshot(disk, path, [entry(offset - 1)])
    return disk, paths


def tail_until(disk: FakeFileSystem, paths: dict[int, str], until: int) -> TransactionTail:
    newest = newest_snapshot(disk, paths, {}, range(until + 1))
    return TransactionTail.from_snapshot(newest, 0)


@pytest.mark.parametrize(("until", "begins"), [(30, 20), (19, 9), (8, 5), (4, 0)])
def test_a_reader_begins_with_the_newest_snapshot_that_is_not_too_new(
    snapshots: tuple[FakeFileSystem, dict[int, str]], until: int, begins: int
) -> None:
    disk, paths = snapshots
    tail = tail_until(disk, paths, until)
    assert tail.next_offset == begins
    assert tail.first_open_offset == (begins - 1 if begins else None)


def test_a_snapshot_that_is_damaged_or_gone_is_skipped(
    snapshots: tuple[FakeFileSystem, dict[int, str]],
) -> None:
    disk, paths = snapshots
    disk.open("twenty", writable=True).pwrite(b"\xff", 0)
    disk.open("twenty", writable=True).truncate(5)
    disk.remove("nine")
    tail = tail_until(disk, paths, 99)
    assert tail.next_offset == 5


def test_those_that_overlap_a_range_are_listed_once_as_they_ended() -> None:
    first, second, third = aborted(1, 0, 9, 10), aborted(2, 5, 7, 0), aborted(3, 20, 30, 31)
    assert overlapping([first, second, third, first], 7, 20) == [second, first]
    assert overlapping([first, second, third], 10, 20) == []
    assert overlapping([third], 30, 31) == [third]
