"""The records of an internal topic from files, as a broker that starts would load them.

Of a damaged partition everything sound is read, and what is lost is said: `InternalTopic.read_all`
reads a log that is open in the same way.
"""

from collections.abc import Callable, Iterator
from typing import TypeVar

from ottla.base.errors import CorruptionError, ProtocolError
from ottla.base.partitions import TopicPartition
from ottla.broker.coordination.losses import KeptState
from ottla.broker.coordination.stored_records import EveryRecord, LatestRecords, StoredRecord
from ottla.broker.topics.offered_ends import replicated_end
from ottla.diagnosis.losses import OnLost
from ottla.storage.files.filenames import partition_directory_name
from ottla.storage.findings import Finding, repair_hint
from ottla.storage.reading.overtaking import ask_log
from ottla.storage.reading.read_only_directory import (
    LostPartitionError,
    ReadOnlyLogDirectory,
    open_for_reading,
)
from ottla.storage.reading.read_only_log import ReadOnlyLog

RecordsT = TypeVar("RecordsT", LatestRecords, "_ListedRecords")


def kept_records(
    path: str, place: TopicPartition, kept: KeptState, on_lost: OnLost
) -> Iterator[StoredRecord]:
    """Yields the current records of a partition in the log directory `path`, by their offsets."""
    latest = _sound_part(path, place, LatestRecords, (kept, on_lost))
    if latest is not None:
        yield from latest.sorted()


def every_record(
    path: str, place: TopicPartition, kept: KeptState, on_lost: OnLost
) -> list[tuple[bytes, bytes | None, int]]:
    """As `kept_records`, for a topic that is not compacted: the key, value and offset of each."""
    every = _sound_part(path, place, _ListedRecords, (kept, on_lost))
    return [] if every is None else every.records


class _ListedRecords(EveryRecord):
    def __init__(self) -> None:
        self.records: list[tuple[bytes, bytes | None, int]] = []
        super().__init__(lambda *record: self.records.append(record))


def undecodable(place: TopicPartition, offset: int, error: ProtocolError) -> str:
    """The line about a record that is not one of its topic."""
    return (
        f"{partition_directory_name(*place)}, offset {offset}: {error}; see it with "
        "ottla log dump --deep"
    )


def _sound_part(
    path: str,
    place: TopicPartition,
    make: Callable[[], RecordsT],
    losses: tuple[KeptState, OnLost],
) -> RecordsT | None:
    """What could be read, and `None` if nothing could; says what could not."""
    kept, on_lost = losses
    name = partition_directory_name(*place)
    try:
        records = _read(path, place, make)
        lost = kept.loss(name, records, "shown", repair_hint(path))
    except (CorruptionError, LostPartitionError) as error:
        on_lost(f"{error}; nothing is shown of the {kept.owners} that {name} keeps")
        return None
    if lost is not None:
        on_lost(lost)
    return records


def _read(path: str, place: TopicPartition, make: Callable[[], RecordsT]) -> RecordsT:
    found: list[Finding] = []

    def find() -> ReadOnlyLog:
        found.clear()
        directory: ReadOnlyLogDirectory = open_for_reading(path, on_damage=found.append)
        return directory.partition(*place)

    def read(log: ReadOnlyLog) -> RecordsT:
        start = log.log_start_offset
        records = make()
        for _ in records.take_all(log.batches.read(start, replicated_end(log)), log.path):
            pass
        for one in log.damage.lost_parts():
            log.directory.report(one)  # if it lies after what was read
        records.damage[:0] = found
        return records

    return ask_log(find, read)
