"""ReadShareGroupStateSummary, 0 and 1: a group coordinator reads how far a group has come.

Kafka's counterpart: `KafkaApis.handleReadShareGroupStateSummaryRequest`.
"""

from ottla.broker.membership.state_requests import SummarizeState
from ottla.codec.schema import Message
from ottla.coordinator.share.coordinator import ShareStateAnswer
from ottla.coordinator.share.persisted_state import SharePartitionKey
from ottla.protocol.messages.read_share_group_state_summary import (
    PartitionData,
    PartitionResult,
    ReadShareGroupStateSummaryRequest,
    ReadShareGroupStateSummaryResponse,
    ReadStateSummaryResult,
)
from ottla.server.dispatching.request_context import PendingResponse, RequestContext
from ottla.server.orders.share_states import Form, answer_by_partition


def handle(
    request: ReadShareGroupStateSummaryRequest, context: RequestContext
) -> Message | PendingResponse:
    return answer_by_partition(request, context, FORM)


def _asked(key: SharePartitionKey, one: PartitionData) -> SummarizeState:
    return SummarizeState(key, one.leader_epoch)


def _result(index: int, answer: ShareStateAnswer) -> PartitionResult:
    if answer.error:
        return PartitionResult(
            partition=index, error_code=answer.error, error_message=answer.message
        )
    state = answer.state
    return PartitionResult(
        partition=index,
        state_epoch=state.state_epoch,
        leader_epoch=state.leader_epoch,
        start_offset=state.start_offset,
        delivery_complete_count=state.complete_count,
    )


FORM = Form(_asked, _result, ReadStateSummaryResult, ReadShareGroupStateSummaryResponse)
