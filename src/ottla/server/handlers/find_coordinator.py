"""FindCoordinator, 0 to 6: the coordinator of every group and transaction is this broker.

Left out: share groups. Kafka's counterpart: `KafkaApis.handleFindCoordinatorRequest`.
"""

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


def handle(request: FindCoordinatorRequest, context: RequestContext) -> FindCoordinatorResponse:
    if context.api_version >= FIRST_LIST_VERSION:
        return FindCoordinatorResponse(
            coordinators=[
                _find(key, request.key_type, context) for key in in_turns(request.coordinator_keys)
            ]
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
    if key_type not in (GROUP, TRANSACTION):
        return Coordinator(
            key=key,
            node_id=-1,
            port=-1,
            error_code=ErrorCode.INVALID_REQUEST,
            error_message=f"There is no coordinator for keys of type {key_type}.",
        )
    is_group = key_type == GROUP
    coordinator = context.broker.groups if is_group else context.broker.transactions
    what = "group" if is_group else "transaction"
    if not coordinator.is_available(key):
        return Coordinator(
            key=key,
            node_id=-1,
            port=-1,
            error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE,
            error_message=f"The log directory of the {what}'s partition is offline, or damaged.",
        )
    host, port = context.client.address
    return Coordinator(
        key=key, node_id=context.broker.node_id, host=host, port=port, error_message=None
    )
