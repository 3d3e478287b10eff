"""AlterPartition, 0 to 3: a leader asks the controller for another ISR (KIP-497).

Kafka's counterpart: `KafkaController.alterPartitions`.
"""

from collections.abc import Iterator

from ottla.base.error_codes import ErrorCode
from ottla.base.ids import ZERO_UUID
from ottla.base.turns import freed_in_turns, in_turns, turn_dict, turn_list
from ottla.controller.events import AlteredAnswer, AlteredIsr, AlterPartition, Answer
from ottla.protocol.messages.alter_partition import (
    AlteredPartition,
    AlteredPartitionResult,
    AlteredTopicResult,
    AlterPartitionRequest,
    AlterPartitionResponse,
)
from ottla.server.dispatching.request_context import PendingAnswer, RequestContext
from ottla.server.orders.applying import membership_of

FIRST_TOPIC_ID_VERSION = 2
FIRST_EPOCHS_VERSION = 3


def handle(request: AlterPartitionRequest, context: RequestContext) -> PendingAnswer:
    version = context.api_version
    changes = turn_list(_changes(request, version))
    event = AlterPartition(
        pending_id=None,
        broker=request.broker_id,
        broker_epoch=request.broker_epoch,
        changes=changes,
        version=version,
    )

    def answered(answers: list[Answer]) -> AlterPartitionResponse:
        freed_in_turns(changes)
        return _response(answers)

    return PendingAnswer(membership_of(context).ask([event]), answered, takes_long=True)


def _changes(request: AlterPartitionRequest, version: int) -> Iterator[AlteredIsr]:
    has_id = version >= FIRST_TOPIC_ID_VERSION
    for topic in request.topics:
        for one in topic.partitions:
            yield AlteredIsr(
                topic=None if has_id else topic.topic_name,
                topic_id=topic.topic_id if has_id else None,
                partition=one.partition_index,
                leader_epoch=one.leader_epoch,
                partition_epoch=one.partition_epoch,
                isr=_isr(one, version),
                recovery_state=one.leader_recovery_state,
            )


def _isr(wanted: AlteredPartition, version: int) -> tuple[int, ...]:
    if version < FIRST_EPOCHS_VERSION:
        return tuple(wanted.new_isr)
    return tuple(one.broker_id for one in wanted.new_isr_with_epochs)


def _response(answers: list[Answer]) -> AlterPartitionResponse:
    (answer,) = answers
    topics: dict[object, AlteredTopicResult] = turn_dict()
    for one in in_turns(answer.altered):
        change = one.change
        key = change.topic if change.topic_id is None else change.topic_id
        topic = topics.get(key)
        if topic is None:
            topic = topics[key] = AlteredTopicResult(
                topic_name=change.topic or "", topic_id=change.topic_id or ZERO_UUID
            )
        topic.partitions.append(_result(one))
    return AlterPartitionResponse(error_code=answer.error, topics=[*topics.values()])


def _result(answer: AlteredAnswer) -> AlteredPartitionResult:
    index, state = answer.change.partition, answer.state
    if answer.error is not ErrorCode.NONE or state is None:
        return AlteredPartitionResult(partition_index=index, error_code=answer.error)
    return AlteredPartitionResult(
        partition_index=index,
        leader_id=state.leader,
        leader_epoch=state.leader_epoch,
        isr=list(state.isr),
        leader_recovery_state=state.recovery_state,
        partition_epoch=answer.partition_epoch,
    )
