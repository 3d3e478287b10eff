"""Creates, extends and deletes topics of a KRaft cluster, as records.

Kafka's counterpart: `ReplicationControlManager`: `createTopics`, `createPartitions`,
`deleteTopics`.
"""

from collections.abc import Callable, Collection, Iterator
from typing import NamedTuple

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.ids import Uuid
from ottla.base.resource_kinds import ResourceKind
from ottla.metadata.deciding.partition_changes import is_live
from ottla.metadata.deciding.placement import Placing
from ottla.metadata.deciding.placing import fenced_racks, live_racks
from ottla.metadata.deciding.topics import (
    Defaults,
    NewTopic,
    TopicGrowth,
    added_placing,
    check_new_name,
    new_placing,
)
from ottla.metadata.directories import first_directory
from ottla.metadata.image import NO_CONFIGS, MetadataImage, PartitionImage
from ottla.metadata.image_changes import config_records, partition_record, topic_records
from ottla.metadata.record_versions import VersionedRecord
from ottla.metadata.records import TopicRecord


class NewPartitions(NamedTuple):
    """Of one topic, as records that are decided on one after another: 9,000 take 60 ms.

    `head` is what goes before the partitions. Taking `partitions` raises `ApiError` at one that
    cannot be.
    """

    name: str
    topic_id: Uuid
    head: list[VersionedRecord]
    partitions: Iterator[VersionedRecord]

    def records(self) -> list[VersionedRecord]:
        """All at once; raises `ApiError`."""
        return [*self.head, *self.partitions]


def create_topic(
    image: MetadataImage,
    new: NewTopic,
    topic_id: Uuid,
    defaults: Defaults,
    chance: Callable[[], int],
    beside: Collection[str] = (),
) -> NewPartitions:
    """Decides on a new topic, whose settings are valid; raises `ApiError`.

    `beside` are topics that are created too and not in the image yet. Brokers that are fenced get
    replicas where the others do not suffice, and lead none.
    """
    check_new_name(new.name, image.topics)
    check_new_name(new.name, beside)
    placing = new_placing(new, live_racks(image), defaults, chance, fenced_racks(image))
    head = [
        (TopicRecord(name=new.name, topic_id=topic_id), 0),
        *config_records(ResourceKind.TOPIC, new.name, NO_CONFIGS, new.settings),
    ]
    partitions = _partitions(image, topic_id, placing, is_manual=bool(new.assignments))
    return NewPartitions(new.name, topic_id, head, partitions)


def grow_topic(image: MetadataImage, growth: TopicGrowth) -> NewPartitions:
    """Decides on a topic's new partitions; raises `ApiError`."""
    topic = image.topics.get(growth.name)
    placing = added_placing(growth, topic, live_racks(image), fenced_racks(image))
    assert topic is not None
    is_manual = growth.assignments is not None
    partitions = _partitions(image, topic.topic_id, placing, is_manual=is_manual)
    return NewPartitions(growth.name, topic.topic_id, [], partitions)


def delete_topic(image: MetadataImage, name: str) -> list[VersionedRecord]:
    """Returns the records that remove a topic and its settings; raises `ApiError`."""
    topic = image.topics.get(name)
    if topic is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return list(topic_records(topic, None, image.level))


def _partitions(
    image: MetadataImage, topic_id: Uuid, placing: Placing, *, is_manual: bool
) -> Iterator[VersionedRecord]:
    for index, replicas in placing:
        isr = tuple(one for one in replicas if is_live(image, one))
        if not isr:
            raise _no_leader(index, len(replicas), is_manual=is_manual)
        partition = PartitionImage(
            replicas=replicas,
            isr=isr,
            leader=isr[0],
            leader_epoch=0,
            partition_epoch=0,
            directories=tuple(first_directory(image.brokers.get(one)) for one in replicas),
        )
        yield partition_record(topic_id, index, partition, image.level)


def _no_leader(index: int, factor: int, *, is_manual: bool) -> ApiError:
    if is_manual:
        return ApiError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "All brokers specified in the manual partition assignment for partition "
            f"{index} are fenced or in controlled shutdown.",
        )
    return ApiError(
        ErrorCode.INVALID_REPLICATION_FACTOR,
        f"Unable to replicate the partition {factor} time(s): All brokers are currently fenced or "
        "in controlled shutdown.",
    )
