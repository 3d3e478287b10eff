"""FindCoordinator, 0 to 6: the coordinator of every group and transaction is this broker.

Left out: share groups. Kafka's counterpart: `KafkaApis.handleFindCoordinatorRequest`.
"""

from collections.abc import Callable

from ottla.base.error_codes import ErrorCode
from ottla.base.turns import in_turns
from ottla.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from ottla.server.request_context import RequestContext

GROUP, TRANSACTION = 0, 1
FIRST_LIST_VERSION = 4


Find = Callable[[str, int, RequestContext], Coordinator]
"""Finds the coordinator of a key of some type."""


def handle(request: FindCoordinatorRequest, context: RequestContext) -> FindCoordinatorResponse:
    return answer(request, context, _find)


def answer(
    request: FindCoordinatorRequest, context: RequestContext, find: Find
) -> FindCoordinatorResponse:
    if context.api_version >= FIRST_LIST_VERSION:
        return FindCoordinatorResponse(
            coordinators=[
                find(key, request.key_type, context) for key in in_turns(request.coordinator_keys)
            ]
        )
    found = find(request.key, request.key_type, context)
    return FindCoordinatorResponse(
        error_code=found.error_code,
        error_message=found.error_message,
        node_id=found.node_id,
        host=found.host,
        port=found.port,
    )


def _find(key: str, key_type: int, context: RequestContext) -> Coordinator:
    if key_type not in (GROUP, TRANSACTION):
        return none_of_type(key, key_type)
    is_group = key_type == GROUP
    coordinator = context.broker.groups if is_group else context.broker.transactions
    what = "group" if is_group else "transaction"
    if not coordinator.is_available(key):
        reason = f"The log directory of the {what}'s partition is offline, or damaged."
        return none_found(key, ErrorCode.COORDINATOR_NOT_AVAILABLE, reason)
    host, port = context.client.address
    return Coordinator(
        key=key, node_id=context.broker.node_id, host=host, port=port, error_message=None
    )


def none_of_type(key: str, key_type: int) -> Coordinator:
    reason = f"There is no coordinator for keys of type {key_type}."
    return none_found(key, ErrorCode.INVALID_REQUEST, reason)


def none_found(key: str, code: ErrorCode, reason: str) -> Coordinator:
    return Coordinator(key=key, node_id=-1, port=-1, error_code=code, error_message=reason)
