"""DescribeQuorum, 0 to 2: who leads, who votes, who follows, and how far (KIP-595, KIP-836)."""

from functools import partial

from ottla.base.error_codes import ErrorCode
from ottla.base.partitions import CLUSTER_METADATA
from ottla.codec.schema import Message
from ottla.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    Listener,
    Node,
    QuorumPartition,
    QuorumTopic,
    ReplicaState,
)
from ottla.quorum import messages
from ottla.quorum.messages import DescribeQuorum, QuorumAnswer
from ottla.quorum.voters import Voter
from ottla.server.dispatching.request_context import PendingAnswer, RequestContext
from ottla.server.orders.quorum_values import answered_by_quorum, leader_id_of, only_partition


def handle(request: DescribeQuorumRequest, context: RequestContext) -> Message | PendingAnswer:
    return answered_by_quorum(request_of(request), context, response_of, partial(_invalid, request))


def _invalid(request: DescribeQuorumRequest) -> DescribeQuorumResponse:
    error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return DescribeQuorumResponse(
        topics=[
            QuorumTopic(
                topic_name=topic.topic_name,
                partitions=[
                    QuorumPartition(
                        partition_index=one.partition_index,
                        error_code=error,
                        error_message=error.description,
                    )
                    for one in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def request_of(message: DescribeQuorumRequest) -> DescribeQuorum | None:
    return None if only_partition(message.topics) is None else DescribeQuorum()


def response_of(answer: QuorumAnswer) -> DescribeQuorumResponse:
    """Who does not lead names no leader, as in Kafka."""
    partition = QuorumPartition(
        error_code=answer.error,
        error_message=answer.message or answer.error.description,
        node_id=answer.node_id,
        high_watermark=0,
    )
    if answer.error is ErrorCode.NONE:
        partition.leader_id = leader_id_of(answer.known)
        partition.leader_epoch = answer.known.epoch
        partition.high_watermark = answer.high_watermark
        partition.current_voters = [_state(one) for one in answer.voters]
        partition.election_reason = answer.election_reason
        partition.observers = [_state(one) for one in answer.observers]
    return DescribeQuorumResponse(
        error_message="",
        topics=[QuorumTopic(topic_name=CLUSTER_METADATA, partitions=[partition])],
        nodes=[_node(one) for one in answer.nodes],
    )


def _state(one: messages.ReplicaState) -> ReplicaState:
    return ReplicaState(
        replica_id=one.key.id,
        replica_directory_id=one.key.directory_id,
        log_end_offset=one.end_offset,
        last_fetch_timestamp=one.last_fetch_ms,
        last_caught_up_timestamp=one.last_caught_up_ms,
    )


def _node(voter: Voter) -> Node:
    listeners = [Listener(name=one.name, host=one.host, port=one.port) for one in voter.endpoints]
    return Node(node_id=voter.key.id, listeners=listeners)
