"""EndQuorumEpoch, 0 and 1: a leader of the metadata quorum resigns (KIP-595)."""

from typing import Final

from ottla.base.error_codes import ErrorCode
from ottla.codec.schema import Message
from ottla.protocol.messages.end_quorum_epoch import (
    EndedPartitionResult,
    EndedTopicResult,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    NodeEndpoint,
)
from ottla.quorum.messages import EndQuorumEpoch, EpochAnswer
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
    EndQuorumEpochResponse, EndedTopicResult, EndedPartitionResult, NodeEndpoint
)


def handle(request: EndQuorumEpochRequest, context: RequestContext) -> Message | PendingAnswer:
    return answered_by_quorum(request_of(request), context, response_of, _invalid)


def _invalid() -> EndQuorumEpochResponse:
    return EndQuorumEpochResponse(error_code=ErrorCode.INVALID_REQUEST)


def request_of(message: EndQuorumEpochRequest) -> EndQuorumEpoch | None:
    """Version 0 names successors by their ids alone."""
    found = only_partition(message.topics)
    if found is None:
        return None
    candidates = [
        ReplicaKey(one.candidate_id, one.candidate_directory_id)
        for one in found.preferred_candidates
    ]
    return EndQuorumEpoch(
        message.cluster_id,
        found.leader_id,
        found.leader_epoch,
        tuple(candidates or map(ReplicaKey, found.preferred_successors)),
        endpoints_of(message.leader_endpoints),
    )


def response_of(answer: EpochAnswer) -> Message:
    return epoch_response(answer, KINDS)
