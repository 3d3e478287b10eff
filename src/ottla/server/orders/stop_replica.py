"""StopReplica, 0 to 4: the controller stops replicas, and deletes some of them.

Kafka's counterpart: `ReplicaManager.stopReplicas`.
"""

from ottla.base.error_codes import ErrorCode
from ottla.protocol.messages.stop_replica import (
    StopReplicaPartitionError,
    StopReplicaRequest,
    StopReplicaResponse,
)
from ottla.server.dispatching.request_context import RequestContext
from ottla.server.orders.applying import apply_in_parts
from ottla.server.orders.decoding import sender_of, stop_replica


def handle(request: StopReplicaRequest, context: RequestContext) -> StopReplicaResponse:
    order = stop_replica(request, context.api_version)
    applied = apply_in_parts(order, sender_of(request), context)
    if applied.error is ErrorCode.STALE_BROKER_EPOCH:
        return StopReplicaResponse(error_code=applied.error)
    return StopReplicaResponse(
        error_code=applied.error,
        partition_errors=[
            StopReplicaPartitionError(
                topic_name=one.topic,
                partition_index=one.partition,
                error_code=applied.errors.get(one, applied.error),
            )
            for one in order.orders
        ],
    )
