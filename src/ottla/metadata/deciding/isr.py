"""Decides about the ISRs that leaders ask for (AlterPartition, KIP-497).

Kafka's counterpart: `ReplicationControlManager.alterPartition`.
"""

from collections.abc import Sequence

from ottla.base.error_codes import ErrorCode
from ottla.base.values import dataclass
from ottla.metadata.altered_isr import AlteredIsr
from ottla.metadata.deciding.node_rules import check_epoch
from ottla.metadata.deciding.partition_changes import (
    NO_DEFAULTS,
    PartitionChanges,
    TopicDefaults,
    Wanted,
    is_live,
)
from ottla.metadata.image import (
    NO_TOPIC,
    RECOVERED,
    RECOVERING,
    MetadataImage,
    PartitionImage,
    TopicImage,
)
from ottla.metadata.record_versions import VersionedRecord
from ottla.metadata.records import NO_LEADER_CHANGE, PartitionChangeRecord
from ottla.metadata.replay import changed_partition

ANY_EPOCH = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class IsrAnswer:
    """The answer for one partition; without an error, `state` is what it is then."""

    change: AlteredIsr
    error: ErrorCode = ErrorCode.NONE
    state: PartitionImage | None = None

    @property
    def partition_epoch(self) -> int:
        return -1 if self.state is None else self.state.partition_epoch


def alter_partition(
    image: MetadataImage,
    broker_id: int,
    broker_epoch: int,
    changes: Sequence[AlteredIsr],
    defaults: TopicDefaults = NO_DEFAULTS,
) -> tuple[list[VersionedRecord], list[IsrAnswer]]:
    """Returns the records, and an answer for each change. Raises `ApiError`: STALE_BROKER_EPOCH.

    An answer has NEW_LEADER_ELECTED although there is a record, if the ISR completes a reassignment
    after which another broker leads.
    """
    check_epoch(image, broker_id, broker_epoch)
    decided, records, answers = PartitionChanges(image, defaults), [], []
    for change in changes:
        topic = _topic(image, change)
        error = _error(image, topic, broker_id, change)
        if error is not ErrorCode.NONE:
            answers.append(IsrAnswer(change=change, error=error))
            continue
        wanted = Wanted(isr=change.isr, recovery_state=change.recovery_state)
        made = decided.record(topic, change.partition, wanted)
        state = topic.partitions[change.partition]
        if made is not None:
            records.append(made)
            record = made[0]
            assert isinstance(record, PartitionChangeRecord)
            if record.leader not in (broker_id, NO_LEADER_CHANGE):
                answers.append(IsrAnswer(change=change, error=ErrorCode.NEW_LEADER_ELECTED))
                continue
            state = changed_partition(state, record)
        answers.append(IsrAnswer(change=change, state=state))
    return records, answers


def _topic(image: MetadataImage, change: AlteredIsr) -> TopicImage:
    name = change.topic
    if change.topic_id is not None:
        name = image.topic_names.get(change.topic_id)
    return NO_TOPIC if name is None else image.topics.get(name, NO_TOPIC)


def _error(
    image: MetadataImage, topic: TopicImage, broker_id: int, change: AlteredIsr
) -> ErrorCode:
    """Why a leader may not have the ISR that it asks for."""
    if topic is NO_TOPIC:
        is_by_name = change.topic_id is None
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_by_name else ErrorCode.UNKNOWN_TOPIC_ID
    known = topic.partitions.get(change.partition)
    if known is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    is_ahead = change.leader_epoch > known.leader_epoch
    if is_ahead or change.partition_epoch > known.partition_epoch:
        return ErrorCode.NOT_CONTROLLER  # another controller knows more
    if change.leader_epoch < known.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if broker_id != known.leader:
        return ErrorCode.INVALID_REQUEST
    if change.partition_epoch < known.partition_epoch:
        return ErrorCode.INVALID_UPDATE_VERSION
    if not _is_possible(known, change):
        return ErrorCode.INVALID_REQUEST
    if not all(_is_eligible(image, change, number) for number in range(len(change.isr))):
        return ErrorCode.INELIGIBLE_REPLICA
    return ErrorCode.NONE


def _is_possible(known: PartitionImage, change: AlteredIsr) -> bool:
    isr = set(change.isr)
    is_isr = len(isr) == len(change.isr) and isr <= set(known.replicas) and known.leader in isr
    if change.recovery_state == RECOVERING:
        return is_isr and len(isr) == 1 and known.recovery_state == RECOVERING
    return is_isr and change.recovery_state == RECOVERED


def _is_eligible(image: MetadataImage, change: AlteredIsr, number: int) -> bool:
    """Whether a broker may be in an ISR: it is live, and the one that the leader has heard."""
    broker_id = change.isr[number]
    epoch = change.epochs[number] if change.epochs else ANY_EPOCH
    return is_live(image, broker_id) and epoch in (ANY_EPOCH, image.brokers[broker_id].epoch)
