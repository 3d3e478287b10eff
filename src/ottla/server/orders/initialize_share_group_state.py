"""InitializeShareGroupState, 0: a group coordinator begins states of partitions in a share group.

Kafka's counterpart: `KafkaApis.handleInitializeShareGroupStateRequest`.
"""

from ottla.broker.membership.state_requests import InitializeState
from ottla.codec.schema import Message
from ottla.coordinator.share.coordinator import ShareStateAnswer
from ottla.coordinator.share.persisted_state import SharePartitionKey
from ottla.protocol.messages.initialize_share_group_state import (
    InitializeShareGroupStateRequest,
    InitializeShareGroupStateResponse,
    InitializeStateResult,
    PartitionData,
    PartitionResult,
)
from ottla.server.dispatching.request_context import PendingResponse, RequestContext
from ottla.server.orders.share_states import Form, answer_by_partition


def handle(
    request: InitializeShareGroupStateRequest, context: RequestContext
) -> Message | PendingResponse:
    return answer_by_partition(request, context, FORM)


def _asked(key: SharePartitionKey, one: PartitionData) -> InitializeState:
    return InitializeState(key, one.state_epoch, one.start_offset)


def _result(index: int, answer: ShareStateAnswer) -> PartitionResult:
    return PartitionResult(partition=index, error_code=answer.error, error_message=answer.message)


FORM = Form(_asked, _result, InitializeStateResult, InitializeShareGroupStateResponse)
