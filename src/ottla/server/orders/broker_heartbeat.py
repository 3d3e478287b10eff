"""BrokerHeartbeat, 0 to 2: a broker lives, and learns whether it may serve, or stop (KIP-631).

Kafka's counterpart: `ControllerApis.handleBrokerHeartBeatRequest`.
"""

from ottla.base.errors import ApiError
from ottla.codec.schema import Message
from ottla.metadata.deciding.heartbeats import HeartbeatAnswer, HeartbeatRequest
from ottla.protocol.messages.broker_heartbeat import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
)
from ottla.server.dispatching.request_context import PendingResponse, RequestContext, respond
from ottla.server.orders.asking import quorum_controller_of


def handle(request: BrokerHeartbeatRequest, context: RequestContext) -> Message | PendingResponse:
    cordoned = request.cordoned_log_dirs
    wanted = HeartbeatRequest(
        request.broker_id,
        request.broker_epoch,
        request.current_metadata_offset,
        request.want_fence,
        request.want_shut_down,
        tuple(request.offline_log_dirs),
        None if cordoned is None else tuple(cordoned),
    )
    return respond(quorum_controller_of(context).heartbeat(wanted), _response)


def _response(answer: HeartbeatAnswer | ApiError) -> BrokerHeartbeatResponse:
    if isinstance(answer, ApiError):
        return BrokerHeartbeatResponse(error_code=answer.code)
    return BrokerHeartbeatResponse(
        is_caught_up=answer.is_caught_up,
        is_fenced=answer.is_fenced,
        should_shut_down=answer.should_shut_down,
    )
