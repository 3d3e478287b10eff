"""Vote, 0 to 2: a candidate asks this voter of the metadata quorum (KIP-595, KIP-853, KIP-996)."""

from typing import Final

from ottla.base.error_codes import ErrorCode
from ottla.codec.schema import Message
from ottla.protocol.messages.vote import (
    NodeEndpoint,
    VoteRequest,
    VoteResponse,
    VoteResponsePartition,
    VoteResponseTopic,
)
from ottla.quorum.messages import EpochEnd, Vote, VoteAnswer
from ottla.quorum.voters import ReplicaKey
from ottla.server.dispatching.request_context import PendingAnswer, RequestContext
from ottla.server.orders.quorum_values import (
    ResponseKinds,
    answered_by_quorum,
    epoch_response,
    only_partition,
)

KINDS: Final = ResponseKinds(VoteResponse, VoteResponseTopic, VoteResponsePartition, NodeEndpoint)


def handle(request: VoteRequest, context: RequestContext) -> Message | PendingAnswer:
    return answered_by_quorum(request_of(request), context, response_of, _invalid)


def _invalid() -> VoteResponse:
    return VoteResponse(error_code=ErrorCode.INVALID_REQUEST)


def request_of(message: VoteRequest) -> Vote | None:
    found = only_partition(message.topics)
    if found is None:
        return None
    return Vote(
        message.cluster_id,
        ReplicaKey(message.voter_id, found.voter_directory_id),
        ReplicaKey(found.replica_id, found.replica_directory_id),
        found.replica_epoch,
        EpochEnd(found.last_offset_epoch, found.last_offset),
        found.pre_vote,
    )


def response_of(answer: VoteAnswer) -> Message:
    return epoch_response(answer, KINDS, vote_granted=answer.is_granted)
