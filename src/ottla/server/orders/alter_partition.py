"""AlterPartition, 0 to 3: a leader asks the controller for another ISR (KIP-497).

Kafka's counterparts: `ControllerApis.handleAlterPartitionRequest`,
`KafkaController.alterPartitions`.
"""

from collections.abc import Iterator

from ottla.base.error_codes import ErrorCode
from ottla.base.ids import ZERO_UUID
from ottla.base.turns import in_turns, turn_dict, turn_list
from ottla.broker.controlling.outcomes import AlteredIsrs, IsrAnswered
from ottla.codec.schema import Message
from ottla.metadata.altered_isr import AlteredIsr
from ottla.protocol.messages.alter_partition import (
    AlteredPartition,
    AlteredPartitionResult,
    AlteredTopicResult,
    AlterPartitionRequest,
    AlterPartitionResponse,
)
from ottla.server.dispatching.request_context import PendingResponse, RequestContext, respond
from ottla.server.orders.asking import cluster_controller_of

FIRST_TOPIC_ID_VERSION = 2
FIRST_EPOCHS_VERSION = 3


def handle(request: AlterPartitionRequest, context: RequestContext) -> Message | PendingResponse:
    version = context.api_version
    changes = turn_list(_changes(request, version))
    controller = cluster_controller_of(context)
    altered = controller.alter_partition(
        request.broker_id, request.broker_epoch, changes, version=version
    )
    return respond(altered, _response)


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
                epochs=_epochs(one, version),
                recovery_state=one.leader_recovery_state,
            )


def _isr(wanted: AlteredPartition, version: int) -> tuple[int, ...]:
    if version < FIRST_EPOCHS_VERSION:
        return tuple(wanted.new_isr)
    return tuple(one.broker_id for one in wanted.new_isr_with_epochs)


def _epochs(wanted: AlteredPartition, version: int) -> tuple[int, ...]:
    if version < FIRST_EPOCHS_VERSION:
        return ()
    return tuple(one.broker_epoch for one in wanted.new_isr_with_epochs)


def _response(altered: AlteredIsrs) -> AlterPartitionResponse:
    topics: dict[object, AlteredTopicResult] = turn_dict()
    for one in in_turns(altered.answers):
        change = one.change
        key = change.topic if change.topic_id is None else change.topic_id
        topic = topics.get(key)
        if topic is None:
            topic = topics[key] = AlteredTopicResult(
                topic_name=change.topic or "", topic_id=change.topic_id or ZERO_UUID
            )
        topic.partitions.append(_result(one))
    error = ErrorCode.NONE if altered.error is None else altered.error.code
    return AlterPartitionResponse(error_code=error, topics=[*topics.values()])


def _result(answer: IsrAnswered) -> AlteredPartitionResult:
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
