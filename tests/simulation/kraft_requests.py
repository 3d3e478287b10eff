"""What brokers and controllers of the simulated KRaft cluster say, as values and as messages."""

from collections.abc import Callable
from typing import Any, Final

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.broker.controlling.active_controller import ActiveController
from ottla.cluster.quorum.broker_lifecycle import Request
from ottla.controller.events import AlteredAnswer
from ottla.metadata.brokers import BrokerRegistration
from ottla.metadata.deciding.heartbeats import HeartbeatRequest
from ottla.metadata.deciding.isr import IsrAnswer
from ottla.metadata.deciding.registration import RegistrationRequest
from ottla.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from ottla.protocol.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)
from ottla.server.orders.node_fields import endpoints_of, features_of
from ottla.zookeeper.topics import PartitionState

NOT_CONTROLLER: Final = ApiError(ErrorCode.NOT_CONTROLLER)


def verb_of(request: Request) -> Callable[[ActiveController], Any]:
    if isinstance(request, BrokerRegistrationRequest):
        registration = registration_of(request)
        return lambda controller: controller.register_broker(registration)
    beat = heartbeat_of(request)
    return lambda controller: controller.heartbeat(beat)


def registration_of(request: BrokerRegistrationRequest) -> RegistrationRequest:
    broker = BrokerRegistration(
        endpoints=endpoints_of(request.listeners),
        features=features_of(request.features),
        incarnation_id=request.incarnation_id,
        directories=tuple(request.log_dirs),
    )
    return RegistrationRequest(
        request.broker_id, request.cluster_id, broker, request.previous_broker_epoch
    )


def heartbeat_of(request: BrokerHeartbeatRequest) -> HeartbeatRequest:
    return HeartbeatRequest(
        request.broker_id,
        request.broker_epoch,
        request.current_metadata_offset,
        want_fence=request.want_fence,
        want_shut_down=request.want_shut_down,
        offline=tuple(request.offline_log_dirs),
    )


def response_to(
    request: Request, outcome: Any
) -> BrokerRegistrationResponse | BrokerHeartbeatResponse | None:
    if outcome is None or outcome is NOT_CONTROLLER:
        return None
    is_registration = isinstance(request, BrokerRegistrationRequest)
    if isinstance(outcome, ApiError):
        kind = BrokerRegistrationResponse if is_registration else BrokerHeartbeatResponse
        return kind(error_code=outcome.code)
    if is_registration:
        return BrokerRegistrationResponse(broker_epoch=outcome)
    return BrokerHeartbeatResponse(
        is_caught_up=outcome.is_caught_up,
        is_fenced=outcome.is_fenced,
        should_shut_down=outcome.should_shut_down,
    )


def altered(answer: IsrAnswer) -> AlteredAnswer:
    state = answer.state
    if state is None:
        return AlteredAnswer(change=answer.change, error=answer.error)
    return AlteredAnswer(
        change=answer.change,
        partition_epoch=state.partition_epoch,
        state=PartitionState(
            leader=state.leader,
            leader_epoch=state.leader_epoch,
            controller_epoch=0,
            isr=state.isr,
            recovery_state=state.recovery_state,
        ),
    )
