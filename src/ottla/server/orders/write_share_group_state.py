"""WriteShareGroupState, 0 and 1: a leader of partitions changes their states in a share group.

Kafka's counterpart: `KafkaApis.handleWriteShareGroupStateRequest`.
"""

from ottla.base.turns import in_turns
from ottla.broker.membership.state_requests import WriteState
from ottla.codec.schema import Message
from ottla.coordinator.share.coordinator import ShareStateAnswer, StateWrite
from ottla.coordinator.share.persisted_state import SharePartitionKey
from ottla.coordinator.share.records_in_flight import StateBatch
from ottla.protocol.messages.write_share_group_state import (
    PartitionData,
    PartitionResult,
    WriteShareGroupStateRequest,
    WriteShareGroupStateResponse,
    WriteStateResult,
)
from ottla.server.dispatching.request_context import PendingResponse, RequestContext
from ottla.server.orders.share_states import Form, answer_by_partition


def handle(
    request: WriteShareGroupStateRequest, context: RequestContext
) -> Message | PendingResponse:
    return answer_by_partition(request, context, FORM)


def _asked(key: SharePartitionKey, one: PartitionData) -> WriteState:
    return WriteState(key, _change(one))


def _change(one: PartitionData) -> StateWrite:
    return StateWrite(
        state_epoch=one.state_epoch,
        leader_epoch=one.leader_epoch,
        start_offset=one.start_offset,
        batches=[
            StateBatch(
                batch.first_offset, batch.last_offset, batch.delivery_state, batch.delivery_count
            )
            for batch in in_turns(one.state_batches)
        ],
        complete_count=one.delivery_complete_count,
    )


def _result(index: int, answer: ShareStateAnswer) -> PartitionResult:
    return PartitionResult(partition=index, error_code=answer.error, error_message=answer.message)


FORM = Form(_asked, _result, WriteStateResult, WriteShareGroupStateResponse)
