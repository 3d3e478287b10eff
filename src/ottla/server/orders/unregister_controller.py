"""UnregisterController, 0: the cluster forgets a controller that does not come back (KIP-1312).

Kafka's counterpart: `ControllerApis.handleUnregisterController`.
"""

from ottla.base.errors import ApiError
from ottla.codec.schema import Message
from ottla.protocol.messages.unregister_controller import (
    UnregisterControllerRequest,
    UnregisterControllerResponse,
)
from ottla.server.dispatching.request_context import PendingResponse, RequestContext, respond
from ottla.server.orders.asking import quorum_controller_of


def handle(
    request: UnregisterControllerRequest, context: RequestContext
) -> Message | PendingResponse:
    outcome = quorum_controller_of(context).unregister_controller(request.controller_id)
    return respond(outcome, _response)


def _response(error: ApiError | None) -> UnregisterControllerResponse:
    if error is None:
        return UnregisterControllerResponse(error_message="")
    return UnregisterControllerResponse(error_code=error.code, error_message=error.message)
