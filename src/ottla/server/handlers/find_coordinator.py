"""FindCoordinator, 0 to 6: the broker with the partition that a group or a transaction belongs to.

Where that topic is the controller's to create, the first request asks for it, and the client asks
again until it has leaders. Brokers look for the coordinator of a partition in a share group by
`group:topic id:partition`. Kafka's counterpart: `KafkaApis.getCoordinator`.
"""

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.partitions import CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE
from ottla.coordinator.share.persisted_state import parse_key
from ottla.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from ottla.server.dispatching.request_context import RequestContext

GROUP, TRANSACTION, SHARE = 0, 1, 2
TOPICS = {GROUP: CONSUMER_OFFSETS, TRANSACTION: TRANSACTION_STATE, SHARE: SHARE_GROUP_STATE}
FIRST_SHARE_VERSION = 6
FIRST_LIST_VERSION = 4


def handle(request: FindCoordinatorRequest, context: RequestContext) -> FindCoordinatorResponse:
    if context.api_version >= FIRST_LIST_VERSION:
        return FindCoordinatorResponse(
            coordinators=[_find(key, request.key_type, context) for key in request.coordinator_keys]
        )
    found = _find(request.key, request.key_type, context)
    return FindCoordinatorResponse(
        error_code=found.error_code,
        error_message=found.error_message,
        node_id=found.node_id,
        host=found.host,
        port=found.port,
    )


def _find(key: str, key_type: int, context: RequestContext) -> Coordinator:
    broker, topic = context.broker, TOPICS.get(key_type)
    if topic is None or (key_type == SHARE and context.api_version < FIRST_SHARE_VERSION):
        reason = f"There is no coordinator for keys of type {key_type}."
        return _none_found(key, ErrorCode.INVALID_REQUEST, reason)
    if key_type == SHARE and not _is_share_key(key):
        reason = f"{key} is not of the form group:topic id:partition."
        return _none_found(key, ErrorCode.INVALID_REQUEST, reason)
    try:
        leader = broker.view.coordinator_of(topic, key)
    except ApiError as error:
        if broker.catalog.find(topic) is None:
            broker.controller.create_named([topic])
        return _none_found(key, error.code, error.message)
    node = broker.view.node(leader, context.client.reach)
    if node is None:
        reason = f"The coordinator, broker {leader}, has no listener {context.client.listener}."
        return _none_found(key, ErrorCode.COORDINATOR_NOT_AVAILABLE, reason)
    return Coordinator(key=key, node_id=leader, host=node.host, port=node.port, error_message=None)


def _is_share_key(key: str) -> bool:
    try:
        parse_key(key)
    except ValueError:
        return False
    return True


def _none_found(key: str, code: ErrorCode, reason: str) -> Coordinator:
    return Coordinator(key=key, node_id=-1, port=-1, error_code=code, error_message=reason)
