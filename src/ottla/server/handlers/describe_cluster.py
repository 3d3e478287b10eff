"""DescribeCluster, 0 to 2: the cluster's id, and this broker, its only one.

Kafka's counterpart: `AuthHelper.computeDescribeClusterResponse` (KIP-700, KIP-919).
"""

from ottla.base.error_codes import ErrorCode
from ottla.protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from ottla.server.operations import CLUSTER_OPERATIONS
from ottla.server.request_context import RequestContext

BROKERS, CONTROLLERS = 1, 2


def handle(request: DescribeClusterRequest, context: RequestContext) -> DescribeClusterResponse:
    refused = refusal(request)
    if refused is not None:
        return refused
    broker = context.broker
    host, port = context.client.address
    response = DescribeClusterResponse(
        cluster_id=broker.cluster_id,
        controller_id=broker.node_id,
        brokers=[DescribeClusterBroker(broker_id=broker.node_id, host=host, port=port)],
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = CLUSTER_OPERATIONS
    return response


def refusal(request: DescribeClusterRequest) -> DescribeClusterResponse | None:
    """For endpoints that are not brokers."""
    if request.endpoint_type == CONTROLLERS:
        return _refuse(ErrorCode.MISMATCHED_ENDPOINT_TYPE, "This is a broker, not a controller.")
    if request.endpoint_type != BROKERS:
        return _refuse(
            ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
            f"There are no endpoints of type {request.endpoint_type}.",
        )
    return None


def _refuse(code: ErrorCode, message: str) -> DescribeClusterResponse:
    return DescribeClusterResponse(error_code=code, error_message=message)
