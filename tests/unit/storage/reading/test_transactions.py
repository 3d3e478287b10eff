"""Open and aborted transactions of a log that is only read."""

from ottla.base.files import join
from ottla.storage.directory.log_directory import LogDirectory
from ottla.testing import FakeFileSystem
from tests.support.log_transactions import Transactions
from tests.support.logs import DIRECTORY, append
from tests.support.reading_logs import ABORTED, committed, reading


def test_an_open_transaction_ends_what_is_stable(
    disk: FakeFileSystem, broker: LogDirectory, transactions: Transactions
) -> None:
    transactions.write(2)
    append(transactions.log, b"13")
    assert reading(disk).transactions.last_stable_offset == 12
    assert committed(reading(disk)) == [1, 5, 6, 11]
    broker.close()
    assert reading(disk).transactions.last_stable_offset == 12
    assert committed(reading(disk)) == [1, 5, 6, 11]


def test_the_log_itself_says_what_the_indexes_do_not_know_yet(
    disk: FakeFileSystem, transactions: Transactions
) -> None:
    removed = 0
    for name in disk.list(join(DIRECTORY, "t-0")):
        if name.endswith((".txnindex", ".snapshot")):
            disk.remove(join(DIRECTORY, "t-0", name))
            removed += 1
    assert removed > 1
    reader = reading(disk)
    assert reader.transactions.aborted(0, 12) == ABORTED
    assert committed(reader) == [1, 5, 6, 11]


def test_a_damaged_snapshot_is_skipped(disk: FakeFileSystem, transactions: Transactions) -> None:
    for name in disk.list(join(DIRECTORY, "t-0")):
        if name.endswith(".snapshot"):
            disk.open(join(DIRECTORY, "t-0", name), writable=True).pwrite(b"?", 3)
    transactions.write(1)
    assert reading(disk).transactions.last_stable_offset == 12
    assert committed(reading(disk)) == [1, 5, 6, 11]
