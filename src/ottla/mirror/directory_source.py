"""A data directory as a source: read-only, also while its broker runs. See `Source`."""

from collections.abc import Iterator

from ottla.base.files import FileSystem
from ottla.broker.internal_topic import latest_records
from ottla.broker.topic_file import read_topic_file
from ottla.broker.topics import CONSUMER_OFFSETS
from ottla.client.groups import Committed
from ottla.coordinator.group.records import (
    OffsetCommitKey,
    OffsetCommitValue,
    decode_key,
    decode_value,
)
from ottla.mirror.source import Bounds, SourceTopic, is_internal
from ottla.record.record import Record
from ottla.storage.reader import ReadOnlyLog, open_for_reading


class DirectorySource:
    """Bounds end behind the last sound batch: what is torn at the end is not read."""

    def __init__(self, path: str, file_system: FileSystem | None = None) -> None:
        """Raises `UserError` when there is no log directory at the path."""
        self._directory = open_for_reading(path, file_system)
        self.name = path

    def close(self) -> None:
        """Nothing is held open."""

    def topics(self) -> list[SourceTopic]:
        entries = read_topic_file(self._directory.file_system, self._directory.path).entries
        found = []
        for name, partitions in self._directory.topics().items():
            if is_internal(name):
                continue
            entry = entries.get(name)
            if entry is not None and entry.is_deleted:
                continue
            count = partitions[-1] + 1
            found.append(
                SourceTopic(
                    name=name,
                    topic_id=self._log(name, partitions[0]).topic_id,
                    partition_count=max(count, entry.partition_count if entry else 0),
                    overrides=None if entry is None else dict(entry.overrides),
                )
            )
        return found

    def bounds(self, topic: str, partition: int) -> Bounds:
        if partition not in self._directory.topics().get(topic, ()):
            return Bounds(start=0, end=0, stable=0, first_batch=0)
        log = self._log(topic, partition)
        start = log.log_start_offset
        first = next(log.batches(start, start + 1), None)
        return Bounds(
            start=start,
            end=log.log_end_offset,
            stable=log.last_stable_offset,
            first_batch=start if first is None else min(start, first.base_offset),
        )

    def batches(
        self, topic: str, partition: int, from_offset: int, until_offset: int
    ) -> Iterator[memoryview]:
        for region in self._log(topic, partition).regions(from_offset, until_offset):
            yield region.data

    def committed_records(
        self, topic: str, partition: int, from_offset: int, until_offset: int
    ) -> Iterator[Record]:
        log = self._log(topic, partition)
        return log.records(from_offset, until_offset, read_committed=True)

    def committed_offsets(self) -> list[Committed]:
        found = []
        for partition in self._directory.topics().get(CONSUMER_OFFSETS, ()):
            log = self._log(CONSUMER_OFFSETS, partition)
            for record in latest_records(log.batches(log.log_start_offset), log.path):
                key = decode_key(record.key)
                if isinstance(key, OffsetCommitKey) and record.producer_id is None:
                    value = decode_value(key, record.value)
                    assert isinstance(value, OffsetCommitValue)
                    found.append(_committed(key, value))
        return found

    def _log(self, topic: str, partition: int) -> ReadOnlyLog:
        return self._directory.partition(topic, partition)


def _committed(key: OffsetCommitKey, value: OffsetCommitValue) -> Committed:
    return Committed(
        group=key.group,
        topic=key.topic,
        partition=key.partition,
        offset=value.offset,
        leader_epoch=value.leader_epoch,
        metadata=value.metadata,
    )
