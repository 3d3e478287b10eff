"""The data directories of one broker as a `Source`, read without changes, also while it runs."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from ottla.base.files import FileSystem
from ottla.base.partitions import CONSUMER_OFFSETS
from ottla.broker.adoption.found_metadata import find_metadata
from ottla.broker.coordination.stored_records import StoredRecord, latest_records
from ottla.client.administration.group_offsets import Committed
from ottla.coordinator.offsets.records import (
    OffsetCommitKey,
    OffsetCommitValue,
    decode_key,
    decode_value,
)
from ottla.mirror.source import Bounds, Selection, SourceTopic, is_internal
from ottla.record.record import Record
from ottla.storage.files.meta_properties import properties_of
from ottla.storage.findings import Finding
from ottla.storage.reading.locating import locate, locate_partition
from ottla.storage.reading.opening import TierPlace, open_directories
from ottla.storage.reading.overtaking import ask_log
from ottla.storage.reading.read_only_log import ReadOnlyLog


class DirectorySource:
    """Data directories as a `Source`; bounds end at the log's end, before a torn tail."""

    def __init__(
        self,
        path: str,
        file_system: FileSystem | None = None,
        *,
        others: Sequence[str] = (),
        on_damage: Callable[[Finding], None] | None = None,
        tier: TierPlace | None = None,
    ) -> None:
        """`others` are more directories of the same broker (`log.dirs`).

        With `on_damage` damage is skipped and reported. Raises `UserError` if a path is not a log
        directory.
        """
        self._directories = open_directories(
            (path, *others), file_system, on_damage=on_damage, tier=tier
        )
        self.name = ",".join((path, *others))

    @property
    def cluster_id(self) -> str | None:
        """Of the first `meta.properties` that names a cluster; raises `CorruptionError`."""
        found = (properties_of(one.file_system, one.path) for one in self._directories)
        return next((one.cluster_id for one in found if one and one.cluster_id), None)

    def close(self) -> None:
        """Does nothing, as no file is held open."""

    def topics(self, selection: Selection) -> list[SourceTopic]:
        paths = [one.path for one in self._directories]
        settings = find_metadata(paths, self._directories[0].file_system)
        known = settings.known
        found = []
        for name, partitions in sorted(locate(self._directories).items()):
            if is_internal(name) or not selection.takes(name):
                continue
            first, count = min(partitions), max(partitions) + 1
            topic_id = partitions[first].partition(name, first).topic_id
            entry = known.entries.get(name)
            if topic_id in known.gone and entry is None:
                continue
            found.append(
                SourceTopic(
                    name=name,
                    topic_id=topic_id,
                    partition_count=max(count, entry.partition_count if entry else 0),
                    overrides=None
                    if entry is None or settings.why_unknown(name, topic_id) is not None
                    else dict(entry.configs),
                )
            )
        return found

    def bounds(self, topic: str, partition: int) -> Bounds:
        directory = locate_partition(self._directories, topic, partition)
        if directory is None:
            return Bounds(start=0, end=0, stable=0, first_batch=0)
        return ask_log(partial(directory.partition, topic, partition), _bounds)

    def batches(
        self, topic: str, partition: int, from_offset: int, until_offset: int
    ) -> Iterator[memoryview]:
        log = self._log(topic, partition)
        for region in log.batches.regions(from_offset, until_offset):
            # Checked here, where an error has a file and a position.
            for _ in log.batches.checked(region):
                pass
            yield region.data

    def committed_records(
        self, topic: str, partition: int, from_offset: int, until_offset: int
    ) -> Iterator[Record]:
        log = self._log(topic, partition)
        return log.records.read(from_offset, until_offset, read_committed=True)

    def committed_offsets(self) -> list[Committed]:
        located = locate(self._directories, lambda topic, _: topic == CONSUMER_OFFSETS)
        found = []
        for partition, directory in sorted(located.get(CONSUMER_OFFSETS, {}).items()):
            find = partial(directory.partition, CONSUMER_OFFSETS, partition)
            for record in ask_log(find, _latest_records):
                key = decode_key(record.key)
                if isinstance(key, OffsetCommitKey) and record.producer_id is None:
                    value = decode_value(key, record.value)
                    assert isinstance(value, OffsetCommitValue)
                    found.append(_committed(key, value))
        return found

    def _log(self, topic: str, partition: int) -> ReadOnlyLog:
        found = locate_partition(self._directories, topic, partition)
        return (found or self._directories[0]).partition(topic, partition)


def _bounds(log: ReadOnlyLog) -> Bounds:
    # First, since this may take long, and retention may move the log start meanwhile.
    stable = log.transactions.last_stable_offset
    start = log.log_start_offset
    first = next(log.batches.read(start, start + 1), None)
    return Bounds(
        start=start,
        end=log.log_end_offset,
        stable=stable,
        first_batch=start if first is None else min(start, first.base_offset),
    )


def _latest_records(log: ReadOnlyLog) -> list[StoredRecord]:
    return list(latest_records(log.batches.read(log.log_start_offset), log.path))


def _committed(key: OffsetCommitKey, value: OffsetCommitValue) -> Committed:
    return Committed(
        group=key.group,
        topic=key.topic,
        partition=key.partition,
        offset=value.offset,
        leader_epoch=value.leader_epoch,
        metadata=value.metadata,
    )
