"""Which transactions were aborted, for readers that change nothing and trust no index."""

import logging

import pytest

from ottla.base.errors import CorruptionError
from ottla.record.batch import Batch
from ottla.storage import scan
from ottla.storage.files.filenames import FileKind, FileSuffix
from ottla.storage.files.integrity import Integrity, SegmentFacts, checksum_of
from ottla.storage.index.transaction_index import AbortedTransaction
from ottla.storage.log.partition_log import PartitionLog
from ottla.storage.reading.aborted_reading import (
    ChangedIndexError,
    aborts_without_entry,
    indexed_transactions,
    report_missing_aborts,
)
from ottla.storage.segment.partition_files import SegmentFiles
from ottla.testing import FakeFileSystem
from tests.support.log_transactions import Transactions
from tests.support.logs import NOW_MS, append, open_log

EVERYTHING = 0, 1 << 40


@pytest.fixture
def disk() -> FakeFileSystem:
    return FakeFileSystem()


@pytest.fixture
def log(disk: FakeFileSystem) -> PartitionLog:
    """Aborted are the records at 0 and 4, each in a segment of its own."""
    log = open_log(disk)
    transactions = Transactions(log)
    for _ in range(2):
        transactions.write(1)
        append(log, b"committed")
        transactions.end(1, is_commit=False)
        append(log, b"committed")
        log.writer.roll(NOW_MS)
    return log


def files_of(log: PartitionLog) -> list[SegmentFiles]:
    return [
        SegmentFiles(base_offset=one.base_offset, log_path=one.log.path, size=one.size)
        for one in log.segments.values
    ]


def batches_of(log: PartitionLog) -> list[Batch]:
    return [
        scan.batch_of(one.log, position)
        for one in log.segments.values
        for position, _ in scan.headers(one.log)
    ]


def firsts(found: list[AbortedTransaction]) -> list[int]:
    return [one.first_offset for one in found]


def test_indexes_name_what_overlaps_with_a_range(log: PartitionLog, disk: FakeFileSystem) -> None:
    files = files_of(log)
    assert firsts(indexed_transactions(disk, files, None, EVERYTHING)) == [0, 4]
    assert firsts(indexed_transactions(disk, files, None, (0, 1))) == [0]
    assert firsts(indexed_transactions(disk, files[1:], None, (4, 5))) == [4]


def test_an_index_that_is_not_as_it_was_written_is_refused(
    log: PartitionLog, disk: FakeFileSystem
) -> None:
    files = files_of(log)
    path = files[0].path_of(FileKind.TRANSACTION_INDEX)
    facts = SegmentFacts(aborted=checksum_of(disk, path))
    known = Integrity(segments={0: facts})
    assert firsts(indexed_transactions(disk, files, known, EVERYTHING)) == [0, 4]
    file = disk.open(path, writable=True)
    file.pwrite(b"\xff", 5)
    file.close()
    with pytest.raises(ChangedIndexError, match="has changed"):
        indexed_transactions(disk, files, known, EVERYTHING)


def test_an_index_on_its_way_into_its_place_is_read_where_it_is(
    log: PartitionLog, disk: FakeFileSystem
) -> None:
    files = files_of(log)
    path = files[0].path_of(FileKind.TRANSACTION_INDEX)
    disk.rename(path, path + FileSuffix.SWAP.value)
    assert firsts(indexed_transactions(disk, files, None, EVERYTHING)) == [0, 4]


def test_markers_show_what_no_index_names(log: PartitionLog, disk: FakeFileSystem) -> None:
    every = indexed_transactions(disk, files_of(log), None, EVERYTHING)
    batches = batches_of(log)
    assert aborts_without_entry(batches, every, EVERYTHING) == []
    assert firsts(aborts_without_entry(batches, every[1:], EVERYTHING)) == [0]
    # Looked for beyond the range, until what is open in it has ended.
    assert firsts(aborts_without_entry(batches, [], (0, 1))) == [0]


def test_what_is_missing_is_refused_or_only_logged(
    log: PartitionLog, disk: FakeFileSystem, caplog: pytest.LogCaptureFixture
) -> None:
    files = files_of(log)
    missing = indexed_transactions(disk, files, None, EVERYTHING)[1:]
    report_missing_aborts([], files, is_tolerated=False)
    with pytest.raises(CorruptionError, match=r"4\.txnindex.*offsets 4 to 6.*repair"):
        report_missing_aborts(missing, files, is_tolerated=False)
    with caplog.at_level(logging.WARNING):
        report_missing_aborts(missing, files, is_tolerated=True)
    assert "using their markers in the log" in caplog.text
