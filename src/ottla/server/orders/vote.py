"""Vote, 0 to 2: a candidate asks this voter of the metadata quorum (KIP-595, KIP-853, KIP-996)."""

from ottla.base.error_codes import ErrorCode
from ottla.base.partitions import CLUSTER_METADATA
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
    answered_by_quorum,
    leader_id_of,
    node_endpoints,
    only_partition,
)


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


def response_of(answer: VoteAnswer) -> VoteResponse:
    if answer.error is ErrorCode.INCONSISTENT_CLUSTER_ID:
        return VoteResponse(error_code=answer.error)
    partition = VoteResponsePartition(
        error_code=answer.error,
        leader_id=leader_id_of(answer.known),
        leader_epoch=answer.known.epoch,
        vote_granted=answer.is_granted,
    )
    return VoteResponse(
        topics=[VoteResponseTopic(topic_name=CLUSTER_METADATA, partitions=[partition])],
        node_endpoints=node_endpoints(NodeEndpoint, answer.known),
    )
