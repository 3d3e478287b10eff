"""Sets of partitions by topic id, converted from and to lists in records."""

from collections.abc import Iterable

from ottla.base.ids import Uuid
from ottla.base.partitions import by_topic
from ottla.coordinator.offsets.records import TopicPartitions

TopicIdPartition = tuple[Uuid, int]

Assignment = frozenset[TopicIdPartition]

NOTHING: Assignment = frozenset()


def to_records(partitions: Iterable[TopicIdPartition]) -> list[TopicPartitions]:
    return [
        TopicPartitions(topic_id=topic_id, partitions=indexes)
        for topic_id, indexes in by_topic(partitions).items()
    ]


def from_records(records: Iterable[TopicPartitions]) -> Assignment:
    return frozenset((one.topic_id, index) for one in records for index in one.partitions)
