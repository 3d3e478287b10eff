"""DescribeCluster, 0 to 2: the brokers that are up, and the controller among them.

Kafka's counterpart: `AuthHelper.computeDescribeClusterResponse` (KIP-700).
"""

from ottla.broker.replication.metadata_cache import NO_CONTROLLER
from ottla.protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from ottla.server.cluster.applying import replicas_of
from ottla.server.handlers.describe_cluster import refusal
from ottla.server.operations import CLUSTER_OPERATIONS
from ottla.server.request_context import RequestContext


def handle(request: DescribeClusterRequest, context: RequestContext) -> DescribeClusterResponse:
    refused = refusal(request)
    if refused is not None:
        return refused
    cache, listener = replicas_of(context).metadata, context.client.listener
    response = DescribeClusterResponse(
        cluster_id=context.broker.cluster_id,
        controller_id=cache.controller if cache.controller in cache.brokers else NO_CONTROLLER,
        brokers=[
            DescribeClusterBroker(broker_id=broker, host=one.host, port=one.port, rack=its.rack)
            for broker, its in sorted(cache.brokers.items())
            if (one := its.endpoint(listener)) is not None
        ],
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = CLUSTER_OPERATIONS
    return response
