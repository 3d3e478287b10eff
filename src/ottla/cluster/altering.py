"""AlterPartition as a leader sends it: requests of ISR changes, and what their answers say."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from ottla.base.error_codes import ErrorCode
from ottla.base.ids import ZERO_UUID, Uuid
from ottla.base.partitions import TopicPartition
from ottla.broker.replication.alter_partitions import place_of
from ottla.broker.replication.replica_manager import ReplicaManager
from ottla.controller.events import AlteredAnswer, AlteredIsr
from ottla.protocol.messages.alter_partition import (
    AlteredPartition,
    AlteredPartitionResult,
    AlteredTopic,
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerState,
)
from ottla.zookeeper.topics import PartitionState

FIRST_TOPIC_ID_VERSION: Final = 2
FIRST_EPOCHS_VERSION: Final = 3
"""Versions of AlterPartition."""

NO_EPOCH: Final = -1
"""Of the brokers of a new ISR in a cluster over ZooKeeper."""


class IsrRequest(NamedTuple):
    """The request for some changes in one version, and the names of its topics by their ids."""

    version: int
    changes: Sequence[AlteredIsr]
    names: dict[Uuid, str]
    message: AlterPartitionRequest

    def answers(self, response: AlterPartitionResponse) -> list[AlteredAnswer]:
        """What a response without an error of its own says of each change that it names."""
        by_place = {place_of(one): one for one in self.changes}
        answers = []
        for topic in response.topics:
            has_id = self.version >= FIRST_TOPIC_ID_VERSION
            name = self.names.get(topic.topic_id, "") if has_id else topic.topic_name
            for one in topic.partitions:
                change = by_place.get(TopicPartition(name, one.partition_index))
                if change is not None:
                    answers.append(_answer(change, one))
        return answers


def isr_request(
    changes: Sequence[AlteredIsr],
    manager: ReplicaManager,
    version: int,
    broker: tuple[int, int],
    *,
    with_epochs: bool = False,
) -> IsrRequest:
    """The request of a broker, which is given by its id and epoch; `with_epochs` names those of
    the brokers in a new ISR too (KIP-903).
    """
    ids = {
        place.topic: its.topic_id or ZERO_UUID
        for place in map(place_of, changes)
        if (its := manager.partitions.get(place)) is not None
    }
    topics: dict[str, AlteredTopic] = {}
    for one in changes:
        name = one.topic or ""
        topic = topics.setdefault(
            name, AlteredTopic(topic_name=name, topic_id=ids.get(name, ZERO_UUID), partitions=[])
        )
        topic.partitions.append(_altered_partition(one, version, with_epochs=with_epochs))
    broker_id, broker_epoch = broker
    message = AlterPartitionRequest(
        broker_id=broker_id, broker_epoch=broker_epoch, topics=list(topics.values())
    )
    return IsrRequest(version, changes, {one: name for name, one in ids.items()}, message)


def _altered_partition(change: AlteredIsr, version: int, *, with_epochs: bool) -> AlteredPartition:
    wanted = AlteredPartition(
        partition_index=change.partition,
        leader_epoch=change.leader_epoch,
        leader_recovery_state=change.recovery_state,
        partition_epoch=change.partition_epoch,
    )
    if version < FIRST_EPOCHS_VERSION:
        wanted.new_isr = list(change.isr)
    else:
        epochs = change.epochs if with_epochs else [NO_EPOCH] * len(change.isr)
        wanted.new_isr_with_epochs = [
            BrokerState(broker_id=one, broker_epoch=epoch)
            for one, epoch in zip(change.isr, epochs, strict=True)
        ]
    return wanted


def _answer(change: AlteredIsr, result: AlteredPartitionResult) -> AlteredAnswer:
    error = ErrorCode(result.error_code)
    if error is not ErrorCode.NONE:
        return AlteredAnswer(change=change, error=error)
    state = PartitionState(
        leader=result.leader_id,
        leader_epoch=result.leader_epoch,
        controller_epoch=0,
        isr=tuple(result.isr),
        recovery_state=result.leader_recovery_state,
    )
    return AlteredAnswer(change=change, state=state, partition_epoch=result.partition_epoch)
