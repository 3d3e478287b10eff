"""A broker with a log, for tests of what reads its files."""

from collections.abc import Callable

import pytest

from ottla.config.topic import TopicConfig
from ottla.storage.directory.log_directory import LogDirectory
from ottla.storage.log.partition_log import PartitionLog
from ottla.testing import FakeFileSystem
from tests.support.log_transactions import Transactions
from tests.support.logs import TOPIC_ID, append, fill, open_directory

TINY = TopicConfig(segment_bytes=250, index_interval_bytes=100, segment_index_bytes=240)


@pytest.fixture
def disk() -> FakeFileSystem:
    return FakeFileSystem()


@pytest.fixture
def broker(disk: FakeFileSystem) -> LogDirectory:
    return open_directory(disk, TINY)


@pytest.fixture
def log(broker: LogDirectory) -> PartitionLog:
    """Ten batches of two records, in several segments."""
    log = broker.create_log("t", 0, TOPIC_ID)
    fill(log, 10)
    assert len(log.segments) > 2
    return log


@pytest.fixture
def transactions(broker: LogDirectory) -> Transactions:
    """Producer 1 aborts 0, 2-3 commits 5, aborts 8 and on; producer 2 commits 1 and 6-7."""
    transactions = Transactions(broker.create_log("t", 0, TOPIC_ID))
    deeds: list[Callable[[], object]] = [
        lambda: transactions.write(1),
        lambda: transactions.write(2),
        lambda: transactions.write(1),
        lambda: transactions.end(1, is_commit=False),
        lambda: transactions.end(2, is_commit=True),
        lambda: transactions.write(1),
        lambda: transactions.write(2),
        lambda: transactions.end(1, is_commit=True),
        lambda: transactions.write(1),
        lambda: transactions.end(1, is_commit=False),
        lambda: transactions.end(2, is_commit=True),
        lambda: append(transactions.log, b"11"),
    ]
    for deed in deeds:
        deed()
    return transactions
