"""A log directory that is only read, beside the broker that writes it."""

from ottla.base.files import FileSystem
from ottla.base.partitions import TopicPartition
from ottla.storage.files.checkpoints import offsets_text
from ottla.storage.files.log_starts import LogStarts
from ottla.storage.index.transaction_index import AbortedTransaction
from ottla.storage.reading.read_only_directory import open_for_reading
from ottla.storage.reading.read_only_log import ReadOnlyLog
from tests.support.logs import DIRECTORY


def reading(disk: FileSystem, topic: str = "t", partition: int = 0) -> ReadOnlyLog:
    return open_for_reading(DIRECTORY, disk).partition(topic, partition)


def values_of(log: ReadOnlyLog, from_offset: int = 0, until_offset: int | None = None) -> list[int]:
    return [int(record.value or b"-1") for record in log.records.read(from_offset, until_offset)]


def committed(log: ReadOnlyLog, from_offset: int = 0) -> list[int]:
    return [record.offset for record in log.records.read(from_offset, read_committed=True)]


ABORTED = [
    AbortedTransaction(producer_id=1, first_offset=0, last_offset=3, last_stable_offset=1),
    AbortedTransaction(producer_id=1, first_offset=8, last_offset=9, last_stable_offset=6),
]


def start_at(disk: FileSystem, offset: int) -> None:
    """Has the directory's files say where the log starts."""
    starts = {TopicPartition("t", 0): offset}
    LogStarts(disk, DIRECTORY).replace(starts, offsets_text(starts))
