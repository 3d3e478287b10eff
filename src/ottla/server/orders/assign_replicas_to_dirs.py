"""AssignReplicasToDirs, 0: a broker says in which of its directories replicas are (KIP-858).

Kafka's counterpart: `ControllerApis.handleAssignReplicasToDirs`.
"""

from collections.abc import Sequence

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.turns import turn_list
from ottla.codec.schema import Message
from ottla.metadata.deciding.replica_directories import PlacedReplica
from ottla.protocol.messages.assign_replicas_to_dirs import (
    AssignedDirectoryResult,
    AssignedPartitionResult,
    AssignedTopicResult,
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
)
from ottla.server.dispatching.request_context import PendingResponse, RequestContext, respond
from ottla.server.orders.asking import quorum_controller_of


def handle(
    request: AssignReplicasToDirsRequest, context: RequestContext
) -> Message | PendingResponse:
    placed = turn_list(
        [
            PlacedReplica(directory.id, topic.topic_id, one.partition_index)
            for directory in request.directories
            for topic in directory.topics
            for one in topic.partitions
        ]
    )

    def answer(codes: Sequence[ErrorCode] | ApiError) -> AssignReplicasToDirsResponse:
        if isinstance(codes, ApiError):
            return AssignReplicasToDirsResponse(error_code=codes.code)
        return _response(request, codes)

    controller = quorum_controller_of(context)
    return respond(
        controller.assign_replicas_to_dirs(request.broker_id, request.broker_epoch, placed), answer
    )


def _response(
    request: AssignReplicasToDirsRequest, codes: Sequence[ErrorCode]
) -> AssignReplicasToDirsResponse:
    """As the request, with the code of each partition."""
    left = iter(codes)
    return AssignReplicasToDirsResponse(
        directories=[
            AssignedDirectoryResult(
                id=directory.id,
                topics=[
                    AssignedTopicResult(
                        topic_id=topic.topic_id,
                        partitions=[
                            AssignedPartitionResult(
                                partition_index=one.partition_index, error_code=next(left)
                            )
                            for one in topic.partitions
                        ],
                    )
                    for topic in directory.topics
                ],
            )
            for directory in request.directories
        ]
    )
