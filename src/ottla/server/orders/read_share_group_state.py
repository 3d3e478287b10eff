"""ReadShareGroupState, 0: a leader of partitions reads states of partitions in a share group.

Kafka's counterpart: `KafkaApis.handleReadShareGroupStateRequest`.
"""

from ottla.base.turns import in_turns
from ottla.broker.membership.state_requests import ReadState
from ottla.codec.schema import Message
from ottla.coordinator.share.coordinator import ShareStateAnswer
from ottla.coordinator.share.persisted_state import SharePartitionKey
from ottla.protocol.messages.read_share_group_state import (
    PartitionData,
    PartitionResult,
    ReadShareGroupStateRequest,
    ReadShareGroupStateResponse,
    ReadStateResult,
    StateBatch,
)
from ottla.server.dispatching.request_context import PendingResponse, RequestContext
from ottla.server.orders.share_states import Form, answer_by_partition


def handle(
    request: ReadShareGroupStateRequest, context: RequestContext
) -> Message | PendingResponse:
    return answer_by_partition(request, context, FORM)


def _asked(key: SharePartitionKey, one: PartitionData) -> ReadState:
    return ReadState(key, one.leader_epoch)


def _result(index: int, answer: ShareStateAnswer) -> PartitionResult:
    if answer.error:
        return PartitionResult(
            partition=index, error_code=answer.error, error_message=answer.message
        )
    state = answer.state
    return PartitionResult(
        partition=index,
        state_epoch=state.state_epoch,
        start_offset=state.start_offset,
        state_batches=[
            StateBatch(
                first_offset=batch.first,
                last_offset=batch.last,
                delivery_state=batch.state,
                delivery_count=batch.delivery_count,
            )
            for batch in in_turns(state.batches)
        ],
    )


FORM = Form(_asked, _result, ReadStateResult, ReadShareGroupStateResponse)
