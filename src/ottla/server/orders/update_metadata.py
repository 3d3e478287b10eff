"""UpdateMetadata, 0 to 8: the controller sends the live brokers and the partitions' leaders.

It reports a deleted topic to all brokers, including those without a replica, and their groups
remove the topic's committed offsets. Kafka's counterpart:
`KafkaApis.handleUpdateMetadataRequest`.
"""

from ottla.base.error_codes import ErrorCode
from ottla.base.turns import in_turns
from ottla.protocol.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from ottla.server.dispatching.request_context import RequestContext
from ottla.server.orders.applying import replicas_of
from ottla.server.orders.decoding import sender_of, update_metadata


def handle(request: UpdateMetadataRequest, context: RequestContext) -> UpdateMetadataResponse:
    order = update_metadata(request, context.api_version)
    replicas = replicas_of(context)
    applied = replicas.apply(order, sender_of(request), context.at)
    if applied.error is ErrorCode.NONE:
        topics = replicas.metadata.topics
        deleted = {
            place.topic
            for place, one in in_turns(order.partitions.items())
            if one.new_image is None and place.topic not in topics
        }
        if deleted:
            context.broker.topics_deleted(deleted)
    return UpdateMetadataResponse(error_code=applied.error)
