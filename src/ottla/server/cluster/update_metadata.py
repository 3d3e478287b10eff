"""UpdateMetadata, 0 to 8: the controller says which brokers live, and who leads what.

Kafka's counterpart: `KafkaApis.handleUpdateMetadataRequest`.
"""

from ottla.protocol.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from ottla.server.cluster.applying import replicas_of
from ottla.server.cluster.orders import sender_of, update_metadata
from ottla.server.request_context import RequestContext


def handle(request: UpdateMetadataRequest, context: RequestContext) -> UpdateMetadataResponse:
    order = update_metadata(request, context.api_version)
    applied = replicas_of(context).apply(order, sender_of(request), context.at)
    return UpdateMetadataResponse(error_code=applied.error)
