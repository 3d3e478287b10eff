"""Requests of a protocol are refused while the cluster does not have it.

A KRaft cluster has groups of the consumer protocol by `group.version`, and share groups by
`share.version`; ApiVersions lists their requests all the same, and says by its features that they
are off. Nobody is asked for permissions first. Kafka's counterparts:
`KafkaApis.isConsumerGroupProtocolEnabled`, `isShareGroupProtocolEnabled`.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from ottla.base.error_codes import ErrorCode
from ottla.base.turns import in_turns, turn_list
from ottla.codec.schema import Message
from ottla.coordinator.requests import CONSUMER
from ottla.metadata.levels import GROUP_VERSION, SHARE_VERSION
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages import consumer_group_describe as consumer_groups
from ottla.protocol.messages import describe_share_group_offsets as share_offsets
from ottla.protocol.messages import response_class
from ottla.protocol.messages import share_group_describe as share_groups
from ottla.server.dispatching.request_context import Handler, PendingResponse, RequestContext

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

REFUSED: Final = ErrorCode.UNSUPPORTED_VERSION

OF_CONSUMER_GROUPS: Final = (ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.CONSUMER_GROUP_DESCRIBE)

HEARTBEATS: Final = (ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.SHARE_GROUP_HEARTBEAT)

DESCRIPTIONS: Final[Mapping[ApiKey, Callable[..., Any]]] = {
    ApiKey.CONSUMER_GROUP_DESCRIBE: consumer_groups.DescribedGroup,
    ApiKey.SHARE_GROUP_DESCRIBE: share_groups.DescribedGroup,
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: share_offsets.DescribedGroup,
}
"""What a response has of each group; other responses have one error."""


def while_enabled(api_key: ApiKey, handle: Handler) -> Handler:
    """Wraps the handler of a request of one of the protocols."""
    missing = _consumer_groups_lack if api_key in OF_CONSUMER_GROUPS else _share_groups_lack

    def handle_if_enabled(
        request: Any, context: RequestContext, *told: Any
    ) -> Message | PendingResponse | None:
        reason = missing(context.broker)
        if reason is None:
            return handle(request, context, *told)
        return _refusal(api_key, request, context, reason)

    return handle_if_enabled


def _consumer_groups_lack(broker: "Broker") -> str | None:
    """What is missing, for people; `None` if nothing is."""
    if CONSUMER not in broker.settings.config.group_coordinator_rebalance_protocols:
        return f"group.coordinator.rebalance.protocols does not name {CONSUMER}."
    return None if broker.view.level(GROUP_VERSION) else _too_low(GROUP_VERSION)


def _share_groups_lack(broker: "Broker") -> str | None:
    return None if broker.view.level(SHARE_VERSION) else _too_low(SHARE_VERSION)


def _too_low(feature: str) -> str:
    return f"The cluster has no {feature}: raise it with `ottla cluster features`."


def _refusal(api_key: ApiKey, request: Any, context: RequestContext, reason: str) -> Message:
    response = response_class(api_key)
    refused: dict[str, Any] = {"error_code": REFUSED, "error_message": reason}
    described = DESCRIPTIONS.get(api_key)
    if described is None:
        without = {"assignment": None} if api_key in HEARTBEATS else {}
        return response(**refused, **without)
    context.may_take_long()
    if api_key is ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS:
        names = turn_list(one.group_id for one in in_turns(request.groups))
    else:
        names = request.group_ids
    groups = turn_list(described(group_id=one, **refused) for one in in_turns(names))
    return response(groups=groups)
