"""Decides where brokers have their replicas (AssignReplicasToDirs, KIP-858).

Kafka's counterpart: `ReplicationControlManager.handleAssignReplicasToDirs`.
"""

from collections.abc import Sequence
from typing import NamedTuple

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.ids import Uuid
from ottla.metadata.deciding.node_rules import check_epoch
from ottla.metadata.deciding.partition_changes import (
    NO_DEFAULTS,
    PartitionChanges,
    TopicDefaults,
    Wanted,
    without,
)
from ottla.metadata.directories import is_online
from ottla.metadata.image import FIRST_WITH_DIRECTORIES, MetadataImage
from ottla.metadata.record_versions import VersionedRecord


class PlacedReplica(NamedTuple):
    """A broker has its replica of a partition in a directory."""

    directory: Uuid
    topic_id: Uuid
    partition: int


def assign_replicas_to_dirs(
    image: MetadataImage,
    broker_id: int,
    broker_epoch: int,
    placed: Sequence[PlacedReplica],
    defaults: TopicDefaults = NO_DEFAULTS,
) -> tuple[list[VersionedRecord], list[ErrorCode]]:
    """Returns the records, and a code for each replica. A replica in a directory that is offline
    leaves the ISR. Raises `ApiError`: UNSUPPORTED_VERSION, STALE_BROKER_EPOCH.
    """
    if image.level < FIRST_WITH_DIRECTORIES:
        raise ApiError(
            ErrorCode.UNSUPPORTED_VERSION,
            f"Directories are assigned from metadata.version {FIRST_WITH_DIRECTORIES} on, and the "
            f"cluster has {image.level}.",
        )
    broker = check_epoch(image, broker_id, broker_epoch)
    at_home = PartitionChanges(image, defaults)
    in_failed = PartitionChanges(image, defaults, leaving=(broker_id,))
    records, codes = [], []
    for one in placed:
        codes.append(_code(image, broker_id, one))
        if codes[-1] is not ErrorCode.NONE:
            continue
        topic = image.topics[image.topic_names[one.topic_id]]
        directories = {broker_id: one.directory}
        wanted, changes = Wanted(directories=directories), at_home
        if not is_online(broker, one.directory):
            isr = without(topic.partitions[one.partition].isr, (broker_id,))
            wanted, changes = Wanted(directories=directories, isr=isr), in_failed
        record = changes.record(topic, one.partition, wanted)
        records += [] if record is None else [record]
    return records, codes


def _code(image: MetadataImage, broker_id: int, one: PlacedReplica) -> ErrorCode:
    name = image.topic_names.get(one.topic_id)
    if name is None:
        return ErrorCode.UNKNOWN_TOPIC_ID
    known = image.topics[name].partitions.get(one.partition)
    if known is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    is_replica = broker_id in known.replicas
    return ErrorCode.NONE if is_replica else ErrorCode.NOT_LEADER_OR_FOLLOWER
