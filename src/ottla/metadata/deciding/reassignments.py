"""Decides about partitions that move to other replicas (KIP-455).

The target's replicas come first, and those that go stay behind them until the target is in sync;
`PartitionChanges` then completes the move, perhaps at once. Kafka's counterparts:
`ReplicationControlManager.alterPartitionReassignments`, `PartitionReassignmentReplicas`,
`PartitionReassignmentRevert`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.partitions import TopicPartition
from ottla.metadata.assignments import ReplicaAssignment
from ottla.metadata.deciding.partition_changes import (
    NO_DEFAULTS,
    PartitionChanges,
    TopicDefaults,
    Wanted,
    without,
)
from ottla.metadata.deciding.placing import check_registered
from ottla.metadata.image import NO_TOPIC, MetadataImage, PartitionImage
from ottla.metadata.record_versions import VersionedRecord


def alter_reassignments(
    image: MetadataImage,
    wanted: Mapping[TopicPartition, Sequence[int] | None],
    defaults: TopicDefaults = NO_DEFAULTS,
    *,
    may_change_count: bool = True,
) -> tuple[list[VersionedRecord], Mapping[TopicPartition, ApiError | None]]:
    """Returns the records, and the outcome of each partition; `None` cancels a move.

    Without `may_change_count` a partition keeps its number of replicas (KIP-860).
    """
    changes, records = PartitionChanges(image, defaults), []
    outcomes: dict[TopicPartition, ApiError | None] = {}
    for place, target in wanted.items():
        try:
            known = _known(image, place)
            if target is None:
                asked = _cancelled(changes, place, known)
            else:
                check_registered(image, target)
                _check_count(known, target, may_change_count=may_change_count)
                asked = _moved(known, tuple(target))
            record = changes.record(image.topics[place.topic], place.partition, asked)
            records += [] if record is None else [record]
            outcomes[place] = None
        except ApiError as error:
            outcomes[place] = error.without_traceback()
    return records, outcomes


def _known(image: MetadataImage, place: TopicPartition) -> PartitionImage:
    topic = image.topics.get(place.topic, NO_TOPIC)
    known = topic.partitions.get(place.partition)
    if known is None:
        what = f"partition {place.topic}:{place.partition}"
        what = f"a topic named {place.topic}" if topic is NO_TOPIC else what
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find {what}.")
    return known


def _moved(known: PartitionImage, target: tuple[int, ...]) -> Wanted:
    """A move to `target`, also in the middle of another move. A replica that is being added, and
    is in the new target too, still counts as added, so that the move ends when it is in sync; in
    Kafka it does not.
    """
    added = {*known.adding, *without(target, known.replicas)}
    removing = tuple(sorted(without(known.replicas, target)))
    return Wanted(
        replicas=(*target, *removing),
        removing=removing,
        adding=tuple(sorted(one for one in target if one in added)),
    )


def _cancelled(changes: PartitionChanges, place: TopicPartition, known: PartitionImage) -> Wanted:
    """The replicas before the move. If none of them is in sync, the first one becomes so, which may
    lose records and must be allowed.
    """
    if not (known.removing or known.adding):
        raise ApiError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
    replicas, isr = without(known.replicas, known.adding), without(known.isr, known.adding)
    if not replicas:
        raise ApiError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "Invalid replica assignment: addingReplicas contains all replicas.",
        )
    if not isr and not changes.allows_unclean(changes.image.topics[place.topic]):
        raise ApiError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Unable to revert partition assignment for {place.topic}:{place.partition} because "
            "it would require an unclean leader election.",
        )
    return Wanted(isr=isr or replicas[:1], replicas=replicas, removing=(), adding=())


def _check_count(known: PartitionImage, target: Sequence[int], *, may_change_count: bool) -> None:
    count = len({*known.replicas} - {*known.removing})
    if not may_change_count and len(target) != count:
        raise ApiError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"The replication factor is changed from {count} to {len(target)}",
        )


def list_reassignments(
    image: MetadataImage, partitions: Iterable[TopicPartition]
) -> Mapping[TopicPartition, ReplicaAssignment]:
    """The moves of partitions that are under way."""
    return {
        place: ReplicaAssignment(one.replicas, one.adding, one.removing)
        for place in partitions
        if (one := image.partition(place)) is not None and _is_moving(one)
    }


def to_list(image: MetadataImage) -> Iterator[TopicPartition]:
    """All partitions that are being moved."""
    for topic in image.topics.values():
        for index, one in topic.partitions.items():
            if _is_moving(one):
                yield TopicPartition(topic.name, index)


def _is_moving(one: PartitionImage) -> bool:
    return bool(one.adding or one.removing)
