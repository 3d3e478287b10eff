"""ListConfigResources, 0 to 1: the names of resources with settings.

Version 0 asks for subscriptions to client metrics only. Only groups with overridden settings are
listed.

Kafka's counterpart: `KafkaApis.handleListConfigResources` (KIP-1142).
"""

from ottla.base.error_codes import ErrorCode
from ottla.base.resource_kinds import ResourceKind
from ottla.base.turns import in_turns
from ottla.protocol.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from ottla.server.dispatching.request_context import RequestContext


def handle(
    request: ListConfigResourcesRequest, context: RequestContext
) -> ListConfigResourcesResponse:
    context.may_take_long()
    wanted = set(request.resource_types) or set(ResourceKind)
    if context.api_version == 0:
        wanted = {ResourceKind.CLIENT_METRICS}
    if not wanted <= set(ResourceKind):
        return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    node = str(context.broker.node_id)
    names = {
        ResourceKind.TOPIC: sorted(topic.name for topic in context.broker.topics),
        ResourceKind.BROKER: [node],
        ResourceKind.BROKER_LOGGER: [node],
        ResourceKind.CLIENT_METRICS: sorted(context.broker.settings.client_metrics),
        ResourceKind.GROUP: sorted(context.broker.settings.groups.overrides),
    }
    return ListConfigResourcesResponse(
        config_resources=[
            ConfigResource(resource_name=name, resource_type=kind)
            for kind in sorted(wanted)
            for name in in_turns(names.get(ResourceKind(kind), ()))
        ]
    )
