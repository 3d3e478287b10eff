"""Log directories of Kafka 0.7: printed by `ottla records`, and imported by `ottla import`."""

import os
import time
from collections.abc import Iterator, Mapping, Sequence

from ottla.base.errors import UserError
from ottla.base.files import OsFileSystem
from ottla.base.partitions import OffsetRange, TopicPartition
from ottla.cli.records.new_record import NewRecord
from ottla.cli.target import Target
from ottla.record.record import Record
from ottla.storage.reading.kafka_07 import OldMessage, old_messages, old_partitions


class OldRecords:
    """A `RecordSource` for a directory of Kafka 0.7; offsets are byte positions, as there."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._file_system = OsFileSystem()
        self._partitions = old_partitions(self._file_system, directory)

    @staticmethod
    def found_at(directory: str) -> "OldRecords | None":
        """Returns `None` if there is no log directory of Kafka 0.7."""
        found = OldRecords(directory) if os.path.isdir(directory) else None
        return found if found is not None and found._partitions else None

    def topics(self) -> list[str]:
        return sorted({topic for topic, _ in self._partitions})

    def partitions(self, topic: str) -> list[int]:
        return [number for name, number in self._partitions if name == topic]

    def bounds(self, places: Sequence[TopicPartition]) -> dict[TopicPartition, OffsetRange]:
        return {place: self._bounds(place) for place in places}

    def _bounds(self, place: TopicPartition) -> OffsetRange:
        first: OldMessage | None = None
        last: OldMessage | None = None
        for last in self._messages(place):
            first = first or last
        if first is None or last is None:
            return OffsetRange(from_offset=0, until_offset=0)
        return OffsetRange(from_offset=first.position, until_offset=last.next_position)

    def offsets_at(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        raise UserError("messages of Kafka 0.7 have no timestamps; name positions, or earliest")

    def records(self, place: TopicPartition, wanted: OffsetRange) -> Iterator[Record]:
        for one in self._messages(place):
            if wanted.from_offset <= one.position < wanted.until_offset:
                yield Record(offset=one.position, timestamp_type=None, value=one.payload)

    def _messages(self, place: TopicPartition) -> Iterator[OldMessage]:
        return old_messages(self._file_system, self._directory, place)


def old_records(
    target: Target, topic: str, directory: str, *, may_create: bool, with_positions: bool
) -> Iterator[NewRecord]:
    """Returns the messages of a topic that the target does not have yet; raises `UserError`.

    The target is queried immediately, and is no longer in use when this returns.
    """
    from ottla.client.administration.importing_07 import (
        POSITION_HEADER,
        messages_left,
        old_topic_partitions,
        prepare_topic,
    )

    file_system = OsFileSystem()
    numbers = old_topic_partitions(file_system, directory, topic)
    with target.patient().open(may_create=may_create) as cluster:
        if not may_create and topic not in cluster.topic_names():
            raise UserError(f"there is no topic {topic}; --create creates it")
        prepare_topic(cluster, topic, numbers)
        left = [
            (number, messages_left(cluster, file_system, directory, TopicPartition(topic, number)))
            for number in numbers
        ]

    def records() -> Iterator[NewRecord]:
        now_ms = time.time_ns() // 1_000_000
        for number, messages in left:
            for one in messages:
                position = b"%d" % one.position
                yield NewRecord(
                    value=one.payload,
                    headers=((POSITION_HEADER, position),) if with_positions else (),
                    partition=number,
                    timestamp_ms=now_ms,
                )

    return records()
