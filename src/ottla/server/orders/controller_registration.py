"""ControllerRegistration, 0: a controller says where it is, and what it supports (KIP-919).

Kafka's counterpart: `ControllerApis.handleControllerRegistration`.
"""

from ottla.base.errors import ApiError
from ottla.codec.schema import Message
from ottla.metadata.deciding import controllers
from ottla.protocol.messages.controller_registration import (
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
)
from ottla.server.dispatching.request_context import PendingResponse, RequestContext, respond
from ottla.server.orders.asking import quorum_controller_of
from ottla.server.orders.node_fields import endpoints_of, features_of


def handle(
    request: ControllerRegistrationRequest, context: RequestContext
) -> Message | PendingResponse:
    wanted = controllers.ControllerRegistrationRequest(
        request.controller_id,
        request.incarnation_id,
        endpoints_of(request.listeners),
        features_of(request.features),
        request.zk_migration_ready,
    )
    return respond(quorum_controller_of(context).register_controller(wanted), _response)


def _response(error: ApiError | None) -> ControllerRegistrationResponse:
    if error is None:
        return ControllerRegistrationResponse(error_message="")
    return ControllerRegistrationResponse(error_code=error.code, error_message=error.message)
