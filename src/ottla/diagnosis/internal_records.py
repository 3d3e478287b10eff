"""The records of an internal topic from files, as a broker that starts would load them.

Of a damaged partition everything sound is read, and what is lost is said: `InternalTopic.read_all`
reads a log that is open in the same way.
"""

from collections.abc import Iterator

from ottla.base.errors import CorruptionError, ProtocolError
from ottla.base.partitions import TopicPartition
from ottla.broker.coordination.losses import KeptState
from ottla.broker.coordination.stored_records import LatestRecords, StoredRecord
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


def kept_records(
    path: str, place: TopicPartition, kept: KeptState, on_lost: OnLost
) -> Iterator[StoredRecord]:
    """Yields the current records of a partition in the log directory `path`, by their offsets."""
    name = partition_directory_name(*place)
    try:
        latest = _latest(path, place)
        lost = kept.loss(name, latest, "shown", repair_hint(path))
    except (CorruptionError, LostPartitionError) as error:
        on_lost(f"{error}; nothing is shown of the {kept.owners} that {name} keeps")
        return
    if lost is not None:
        on_lost(lost)
    yield from latest.sorted()


def undecodable(place: TopicPartition, offset: int, error: ProtocolError) -> str:
    """The line about a record that is not one of its topic."""
    return (
        f"{partition_directory_name(*place)}, offset {offset}: {error}; see it with "
        "ottla log dump --deep"
    )


def _latest(path: str, place: TopicPartition) -> LatestRecords:
    found: list[Finding] = []

    def find() -> ReadOnlyLog:
        found.clear()
        directory: ReadOnlyLogDirectory = open_for_reading(path, on_damage=found.append)
        return directory.partition(*place)

    def read(log: ReadOnlyLog) -> LatestRecords:
        start = log.log_start_offset
        latest = LatestRecords()
        for _ in latest.take_all(log.batches.read(start, replicated_end(log)), log.path):
            pass
        for one in log.damage.lost_parts():
            log.directory.report(one)  # if it lies after what was read
        latest.damage[:0] = found
        return latest

    return ask_log(find, read)
