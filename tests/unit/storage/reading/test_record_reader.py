"""Records of a log that is only read, at both isolation levels."""

import pytest

from ottla.storage.log.partition_log import PartitionLog
from ottla.storage.segment import segment_reader
from ottla.testing import FakeFileSystem
from tests.support.log_transactions import Transactions
from tests.support.reading_logs import ABORTED, committed, reading, values_of


@pytest.mark.parametrize(("from_offset", "until_offset"), [(0, 20), (3, 8), (19, 20), (7, 7)])
def test_records_are_those_of_the_range(
    disk: FakeFileSystem,
    log: PartitionLog,
    monkeypatch: pytest.MonkeyPatch,
    from_offset: int,
    until_offset: int,
) -> None:
    monkeypatch.setattr(segment_reader, "REGION_SIZE", 100)
    found = values_of(reading(disk), from_offset, until_offset)
    assert found == list(range(from_offset, until_offset))


def test_the_range_ends_with_the_log(disk: FakeFileSystem, log: PartitionLog) -> None:
    reader = reading(disk)
    assert values_of(reader, 18, 1000) == [18, 19]
    assert values_of(reader, 20) == []


def test_committed_records_are_distinguished_from_aborted_ones(
    disk: FakeFileSystem, transactions: Transactions
) -> None:
    reader = reading(disk)
    assert reader.transactions.aborted(0, 12) == ABORTED
    assert reader.transactions.aborted(4, 8) == []
    assert committed(reader) == [1, 5, 6, 11]
    assert committed(reader, 3) == [5, 6, 11]
    assert values_of(reader) == [0, 1, 2, 5, 6, 8, 11]
