"""DescribeCluster, 0 to 2: the cluster's id, its brokers, and the controller among them.

Kafka's counterpart: `AuthHelper.computeDescribeClusterResponse` (KIP-700, KIP-919).
"""

from ottla.base.error_codes import ErrorCode
from ottla.protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from ottla.server.dispatching.request_context import RequestContext
from ottla.server.handling.operations import CLUSTER_OPERATIONS

BROKERS, CONTROLLERS = 1, 2


def handle(request: DescribeClusterRequest, context: RequestContext) -> DescribeClusterResponse:
    if request.endpoint_type not in (BROKERS, CONTROLLERS):
        return _refuse(
            ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
            f"There are no endpoints of type {request.endpoint_type}.",
        )
    view, reach = context.broker.view, context.client.reach
    controllers = view.controllers(reach)
    if controllers is None and request.endpoint_type == CONTROLLERS:
        return _refuse(ErrorCode.MISMATCHED_ENDPOINT_TYPE, "This is a broker, not a controller.")
    if controllers is not None and request.endpoint_type == BROKERS:
        return _refuse(ErrorCode.MISMATCHED_ENDPOINT_TYPE, "This is a controller, not a broker.")
    if controllers is None:
        leader_id = view.controller_id
        nodes = view.nodes(reach, with_fenced=request.include_fenced_brokers)
    else:
        leader_id, nodes = controllers
    response = DescribeClusterResponse(
        cluster_id=context.broker.cluster_id,
        endpoint_type=request.endpoint_type,
        controller_id=leader_id,
        brokers=[
            DescribeClusterBroker(
                broker_id=one.id,
                host=one.host,
                port=one.port,
                rack=one.rack,
                is_fenced=one.is_fenced,
            )
            for one in nodes
        ],
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = CLUSTER_OPERATIONS
    return response


def _refuse(code: ErrorCode, message: str) -> DescribeClusterResponse:
    return DescribeClusterResponse(error_code=code, error_message=message)
