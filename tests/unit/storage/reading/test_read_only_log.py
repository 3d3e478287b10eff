"""A log directory beside the broker that writes it, and what it left when it died."""

from collections.abc import Callable

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError, CorruptionError, UserError
from ottla.base.files import FileSystem, join
from ottla.base.partitions import TopicPartition
from ottla.config.topic import TopicConfig
from ottla.storage.directory.log_directory import LogDirectory
from ottla.storage.files.filenames import (
    log_file_name,
)
from ottla.storage.files.log_starts import LogStarts
from ottla.storage.index.transaction_index import AbortedTransaction
from ottla.storage.log.partition_log import PartitionLog
from ottla.storage.reading.read_only_directory import open_for_reading
from ottla.storage.reading.read_only_log import ReadOnlyLog
from ottla.storage.segment import segment_reader
from ottla.testing import FakeFileSystem
from tests.support.log_transactions import Transactions
from tests.support.logs import DIRECTORY, NOW_MS, TOPIC_ID, append, fill, open_directory

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


def reading(disk: FileSystem, topic: str = "t", partition: int = 0) -> ReadOnlyLog:
    return open_for_reading(DIRECTORY, disk).partition(topic, partition)


def values_of(log: ReadOnlyLog, from_offset: int = 0, until_offset: int | None = None) -> list[int]:
    return [int(record.value or b"-1") for record in log.records(from_offset, until_offset)]


def test_what_a_broker_is_writing_is_read(disk: FakeFileSystem, log: PartitionLog) -> None:
    reader = reading(disk)
    assert (reader.log_start_offset, reader.log_end_offset) == (0, 20)
    assert reader.topic_id == TOPIC_ID
    assert values_of(reader) == list(range(20))
    assert [one.base_offset for one in reader.segments] == [
        segment.base_offset for segment in log.segments.from_offset(0)
    ]
    append(log, b"20")
    assert values_of(reader) == list(range(20))
    assert values_of(reading(disk)) == list(range(21))


def test_nothing_is_written(disk: FakeFileSystem, broker: LogDirectory, log: PartitionLog) -> None:
    broker.close()
    before = {name: disk.list(join(DIRECTORY, name)) for name in ("t-0", "")}
    reader = reading(disk)
    list(reader.records(0, read_committed=True))
    assert reader.high_watermark == 20
    assert {name: disk.list(join(DIRECTORY, name)) for name in ("t-0", "")} == before


def test_an_empty_log_has_no_records(disk: FakeFileSystem, broker: LogDirectory) -> None:
    broker.create_log("t", 0, TOPIC_ID)
    reader = reading(disk)
    assert (reader.log_start_offset, reader.log_end_offset, reader.high_watermark) == (0, 0, 0)
    assert list(reader.records(0)) == []
    assert list(reader.batches(0, 100)) == []


def test_a_partition_being_made_is_an_empty_log(disk: FakeFileSystem, log: PartitionLog) -> None:
    disk.make_directory(join(DIRECTORY, "t-1"))
    reader = reading(disk, partition=1)
    assert reader.segments == []
    assert (reader.log_start_offset, reader.log_end_offset) == (0, 0)
    assert reader.topic_id is None
    assert list(reader.records(0, read_committed=True)) == []


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


def test_batches_may_reach_over_both_ends_of_a_range(
    disk: FakeFileSystem, log: PartitionLog
) -> None:
    batches = list(reading(disk).batches(3, 7))
    assert [(batch.base_offset, batch.last_offset) for batch in batches] == [(2, 3), (4, 5), (6, 7)]


def test_the_range_ends_with_the_log(disk: FakeFileSystem, log: PartitionLog) -> None:
    reader = reading(disk)
    assert values_of(reader, 18, 1000) == [18, 19]
    assert values_of(reader, 20) == []


@pytest.mark.parametrize("offset", [-1, 4, 21])
def test_offsets_outside_the_log_are_refused(
    disk: FakeFileSystem, log: PartitionLog, offset: int
) -> None:
    LogStarts(disk, DIRECTORY).write({("t", 0): 5})
    reader = reading(disk)
    assert reader.log_start_offset == 5
    with pytest.raises(ApiError, match="which has 5 to 20") as error:
        reader.batches(offset)
    assert error.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
    assert values_of(reader, 5) == list(range(5, 20))


def test_after_a_clean_stop_everything_is_replicated(
    disk: FakeFileSystem, broker: LogDirectory, log: PartitionLog
) -> None:
    assert not open_for_reading(DIRECTORY, disk).was_stopped_cleanly
    assert reading(disk).high_watermark == 0
    broker.checkpoints.write()
    append(log, b"20")
    assert reading(disk).high_watermark == 20
    broker.close()
    assert open_for_reading(DIRECTORY, disk).was_stopped_cleanly
    assert reading(disk).high_watermark == 21


@pytest.mark.parametrize("garbage", [bytes(500), b"\xff" * 40, b"\0"])
def test_the_log_ends_before_a_torn_append(
    disk: FakeFileSystem, log: PartitionLog, garbage: bytes
) -> None:
    last = log.segments.active
    disk.open(last.log.path, writable=True).pwrite(garbage, last.size)
    assert values_of(reading(disk)) == list(range(20))


def test_a_damaged_batch_is_reported_with_its_place(
    disk: FakeFileSystem, log: PartitionLog
) -> None:
    reader = reading(disk)
    size = next(iter(reader.batches(0))).size
    file = disk.open(reader.segments[0].log_path, writable=True)
    file.pwrite(b"?", size + 80)
    assert values_of(reader, 4) == list(range(4, 20))
    with pytest.raises(CorruptionError, match="CRC") as error:
        values_of(reader)
    assert (error.value.path, error.value.position) == (reader.segments[0].log_path, size)


def test_segments_that_retention_removes_under_way_are_missed(
    disk: FakeFileSystem, log: PartitionLog
) -> None:
    reader = reading(disk)
    records = reader.records(0)
    assert next(records).offset == 0
    log.maintenance.delete_records_before(reader.segments[3].base_offset)
    for segment in reader.segments[:3]:
        disk.rename(segment.log_path, segment.log_path + ".deleted")
    with pytest.raises(ApiError) as error:
        list(records)
    assert error.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_segments_that_compaction_merges_under_way_are_found(
    disk: FakeFileSystem, log: PartitionLog
) -> None:
    reader = reading(disk)
    records = reader.records(0)
    offsets = [next(records).offset]
    first, second, third = reader.segments[:3]
    merged = b"".join(disk.open(one.log_path).pread(one.size, 0) for one in (first, second, third))
    for one in (second, third):
        disk.remove(one.log_path)
    disk.open(first.log_path + ".swap", create=True).pwrite(merged, 0)
    disk.rename(first.log_path + ".swap", first.log_path)
    offsets += [record.offset for record in records]
    assert offsets == list(range(20))


def test_a_partition_that_is_removed_under_way_is_reported(
    disk: FakeFileSystem, broker: LogDirectory, log: PartitionLog
) -> None:
    reader = reading(disk)
    records = reader.records(0)
    next(records)
    broker.delete_logs([TopicPartition("t", 0)])
    with pytest.raises(UserError, match="was removed"):
        list(records)


def test_a_last_segment_compacted_while_it_is_listed_leaves_the_end_where_it_was(
    disk: FakeFileSystem, broker: LogDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between two listings the broker rolls, and compaction finds nothing to keep below that."""
    log = broker.create_log("t", 0, TOPIC_ID)
    append(log, b"0")
    listed = disk.list

    def list_and_clean(directory: str) -> list[str]:
        names = listed(directory)
        if directory == log.directory and len(log.segments) == 1:
            log.writer.roll(now_ms=NOW_MS)
            with_nothing = disk.open(f"{directory}/{log_file_name(0)}", writable=True)
            with_nothing.truncate(0)
        return names

    reader = open_for_reading(DIRECTORY, disk)
    monkeypatch.setattr(disk, "list", list_and_clean)
    assert reader.partition("t", 0).log_end_offset == 1


def test_a_last_segment_that_goes_is_looked_for_again(
    disk: FakeFileSystem, log: PartitionLog
) -> None:
    reader = reading(disk)
    log.writer.roll(NOW_MS)
    log.maintenance.delete_records_before(20)
    for segment in reader.segments:
        disk.rename(segment.log_path, segment.log_path + ".deleted")
    assert reader.log_end_offset == 20
    assert reader.log_start_offset == 20


class NeverThere(FakeFileSystem):
    """A disk on which logs are always gone when they are to be opened."""

    def open(self, path: str, *, writable: bool = False, create: bool = False):  # type: ignore[no-untyped-def]
        if path.endswith(".log") and not writable and not create:
            raise FileNotFoundError(path)
        return super().open(path, writable=writable, create=create)


def test_files_that_are_never_there_are_given_up() -> None:
    disk = NeverThere()
    fill(open_directory(disk).create_log("t", 0, TOPIC_ID), 2)
    with pytest.raises(CorruptionError, match="faster"):
        _ = reading(disk).log_end_offset


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


ABORTED = [
    AbortedTransaction(producer_id=1, first_offset=0, last_offset=3, last_stable_offset=1),
    AbortedTransaction(producer_id=1, first_offset=8, last_offset=9, last_stable_offset=6),
]


def committed(log: ReadOnlyLog, from_offset: int = 0) -> list[int]:
    return [record.offset for record in log.records(from_offset, read_committed=True)]


def test_committed_records_are_distinguished_from_aborted_ones(
    disk: FakeFileSystem, transactions: Transactions
) -> None:
    reader = reading(disk)
    assert reader.aborted_transactions(0, 12) == ABORTED
    assert reader.aborted_transactions(4, 8) == []
    assert committed(reader) == [1, 5, 6, 11]
    assert committed(reader, 3) == [5, 6, 11]
    assert values_of(reader) == [0, 1, 2, 5, 6, 8, 11]


def test_an_open_transaction_ends_what_is_stable(
    disk: FakeFileSystem, broker: LogDirectory, transactions: Transactions
) -> None:
    transactions.write(2)
    append(transactions.log, b"13")
    assert reading(disk).last_stable_offset == 12
    assert committed(reading(disk)) == [1, 5, 6, 11]
    broker.close()
    assert reading(disk).last_stable_offset == 12
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
    assert reader.aborted_transactions(0, 12) == ABORTED
    assert committed(reader) == [1, 5, 6, 11]


def test_a_damaged_snapshot_is_skipped(disk: FakeFileSystem, transactions: Transactions) -> None:
    for name in disk.list(join(DIRECTORY, "t-0")):
        if name.endswith(".snapshot"):
            disk.open(join(DIRECTORY, "t-0", name), writable=True).pwrite(b"?", 3)
    transactions.write(1)
    assert reading(disk).last_stable_offset == 12
    assert committed(reading(disk)) == [1, 5, 6, 11]
