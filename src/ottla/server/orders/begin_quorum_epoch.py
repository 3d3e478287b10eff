"""BeginQuorumEpoch, 0 and 1: a leader of the metadata quorum says that it leads (KIP-595)."""

from ottla.base.error_codes import ErrorCode
from ottla.base.partitions import CLUSTER_METADATA
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
    answered_by_quorum,
    endpoints_of,
    leader_id_of,
    node_endpoints,
    only_partition,
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


def response_of(answer: EpochAnswer) -> BeginQuorumEpochResponse:
    if answer.error is ErrorCode.INCONSISTENT_CLUSTER_ID:
        return BeginQuorumEpochResponse(error_code=answer.error)
    partition = BegunPartitionResult(
        error_code=answer.error,
        leader_id=leader_id_of(answer.known),
        leader_epoch=answer.known.epoch,
    )
    return BeginQuorumEpochResponse(
        topics=[BegunTopicResult(topic_name=CLUSTER_METADATA, partitions=[partition])],
        node_endpoints=node_endpoints(NodeEndpoint, answer.known),
    )
