"""BrokerRegistration, 0 to 4: a broker becomes one of a KRaft cluster (KIP-631).

Kafka's counterpart: `ControllerApis.handleBrokerRegistration`.
"""

from ottla.base.errors import ApiError
from ottla.codec.schema import Message
from ottla.metadata.brokers import BrokerRegistration
from ottla.metadata.deciding.registration import RegistrationRequest
from ottla.protocol.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)
from ottla.server.dispatching.request_context import PendingResponse, RequestContext, respond
from ottla.server.orders.asking import quorum_controller_of
from ottla.server.orders.node_fields import endpoints_of, features_of


def handle(
    request: BrokerRegistrationRequest, context: RequestContext
) -> Message | PendingResponse:
    return respond(quorum_controller_of(context).register_broker(_wanted(request)), _response)


def _wanted(request: BrokerRegistrationRequest) -> RegistrationRequest:
    broker = BrokerRegistration(
        endpoints=endpoints_of(request.listeners),
        rack=request.rack,
        features=features_of(request.features),
        incarnation_id=request.incarnation_id,
        directories=tuple(request.log_dirs),
        is_migrating=request.is_migrating_zk_broker,
    )
    return RegistrationRequest(
        request.broker_id, request.cluster_id, broker, request.previous_broker_epoch
    )


def _response(epoch: int | ApiError) -> BrokerRegistrationResponse:
    if isinstance(epoch, ApiError):
        return BrokerRegistrationResponse(error_code=epoch.code)
    return BrokerRegistrationResponse(broker_epoch=epoch)
