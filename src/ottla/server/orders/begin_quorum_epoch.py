"""BeginQuorumEpoch, 0 and 1: a leader of the metadata quorum says that it leads (KIP-595)."""

from typing import Final

from ottla.base.error_codes import ErrorCode
from ottla.codec.schema import Message
from ottla.protocol.messages.begin_quorum_epoch import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    BegunPartitionResult,
    BegunTopicResult,
    NodeEndpoint,
)
from ottla.quorum.messages import BeginQuorumEpoch, EpochAnswer
from ottla.quorum.voters import ReplicaKey
from ottla.server.dispatching.request_context import PendingAnswer, RequestContext
from ottla.server.orders.quorum_values import (
    ResponseKinds,
    answered_by_quorum,
    endpoints_of,
    epoch_response,
    only_partition,
)

KINDS: Final = ResponseKinds(
    BeginQuorumEpochResponse, BegunTopicResult, BegunPartitionResult, NodeEndpoint
)


def handle(request: BeginQuorumEpochRequest, context: RequestContext) -> Message | PendingAnswer:
    return answered_by_quorum(request_of(request), context, response_of, _invalid)


def _invalid() -> BeginQuorumEpochResponse:
    return BeginQuorumEpochResponse(error_code=ErrorCode.INVALID_REQUEST)


def request_of(message: BeginQuorumEpochRequest) -> BeginQuorumEpoch | None:
    found = only_partition(message.topics)
    if found is None:
        return None
    return BeginQuorumEpoch(
        message.cluster_id,
        ReplicaKey(message.voter_id, found.voter_directory_id),
        found.leader_id,
        found.leader_epoch,
        endpoints_of(message.leader_endpoints),
    )


def response_of(answer: EpochAnswer) -> Message:
    return epoch_response(answer, KINDS)
