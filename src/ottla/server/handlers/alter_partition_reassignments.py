"""AlterPartitionReassignments, 0 to 1: the only place for a partition is the broker it is on.

Kafka's counterpart: `ReplicationControlManager.alterPartitionReassignments` (KIP-455).
"""

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.turns import in_turns
from ottla.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from ottla.server.request_context import RequestContext


def handle(
    request: AlterPartitionReassignmentsRequest, context: RequestContext
) -> AlterPartitionReassignmentsResponse:
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change,
        error_message=None,
        responses=[
            ReassignableTopicResponse(
                name=topic.name,
                partitions=[
                    _reassign(topic.name, wanted, context) for wanted in in_turns(topic.partitions)
                ],
            )
            for topic in in_turns(request.topics)
        ],
    )


def _reassign(
    topic: str, wanted: ReassignablePartition, context: RequestContext
) -> ReassignablePartitionResponse:
    response = ReassignablePartitionResponse(
        partition_index=wanted.partition_index, error_message=None
    )
    try:
        context.broker.topics.partition(topic, wanted.partition_index)
        _check(wanted.replicas, context.broker.node_id)
    except ApiError as error:
        response.error_code, response.error_message = error.code, error.message
    return response


def _check(replicas: list[int] | None, node_id: int) -> None:
    """Raises `ApiError` unless the partition is to stay where it is."""
    if replicas is None:
        raise ApiError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
    if replicas == [node_id]:
        return
    code = ErrorCode.INVALID_REPLICA_ASSIGNMENT
    if not replicas:
        raise ApiError(code, "A partition needs one replica at least.")
    if len(set(replicas)) < len(replicas):
        raise ApiError(code, "A broker is named twice.")
    raise ApiError(code, f"The only broker there is has the id {node_id}.")
