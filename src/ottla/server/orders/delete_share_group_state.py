"""DeleteShareGroupState, 0: a group coordinator deletes states of partitions in a share group.

Kafka's counterpart: `KafkaApis.handleDeleteShareGroupStateRequest`.
"""

from ottla.broker.membership.state_requests import DeleteState
from ottla.codec.schema import Message
from ottla.coordinator.share.coordinator import ShareStateAnswer
from ottla.coordinator.share.persisted_state import SharePartitionKey
from ottla.protocol.messages.delete_share_group_state import (
    DeleteShareGroupStateRequest,
    DeleteShareGroupStateResponse,
    DeleteStateResult,
    PartitionData,
    PartitionResult,
)
from ottla.server.dispatching.request_context import PendingResponse, RequestContext
from ottla.server.orders.share_states import Form, answer_by_partition


def handle(
    request: DeleteShareGroupStateRequest, context: RequestContext
) -> Message | PendingResponse:
    return answer_by_partition(request, context, FORM)


def _asked(key: SharePartitionKey, one: PartitionData) -> DeleteState:
    return DeleteState(key)


def _result(index: int, answer: ShareStateAnswer) -> PartitionResult:
    return PartitionResult(partition=index, error_code=answer.error, error_message=answer.message)


FORM = Form(_asked, _result, DeleteStateResult, DeleteShareGroupStateResponse)
