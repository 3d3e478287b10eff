"""UnregisterBroker, 0: the cluster forgets a broker that does not come back (KIP-631).

Kafka's counterpart: `ControllerApis.handleUnregisterBroker`.
"""

from ottla.base.errors import ApiError
from ottla.codec.schema import Message
from ottla.protocol.messages.unregister_broker import (
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)
from ottla.server.dispatching.request_context import PendingResponse, RequestContext, respond
from ottla.server.orders.asking import quorum_controller_of


def handle(request: UnregisterBrokerRequest, context: RequestContext) -> Message | PendingResponse:
    outcome = quorum_controller_of(context).unregister_broker(request.broker_id)
    return respond(outcome, _response)


def _response(error: ApiError | None) -> UnregisterBrokerResponse:
    if error is None:
        return UnregisterBrokerResponse(error_message="")
    return UnregisterBrokerResponse(error_code=error.code, error_message=error.message)
