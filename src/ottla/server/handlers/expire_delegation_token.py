"""ExpireDelegationToken, 0 to 2: ends a token sooner, or at once with a negative period.

Kafka's counterpart: `DelegationTokenControlManager.expireDelegationToken` (KIP-48).
"""

from ottla.base.errors import ApiError
from ottla.codec.schema import Message
from ottla.metadata.tokens import DelegationToken
from ottla.protocol.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from ottla.server.dispatching.request_context import PendingResponse, RequestContext, respond
from ottla.server.handling.token_fields import lifetimes_of, own_token


def handle(
    request: ExpireDelegationTokenRequest, context: RequestContext
) -> Message | PendingResponse:
    context.may_take_long()
    controller = context.broker.controller
    try:
        token, shortened, expires_ms = _expired(request, context)
    except ApiError as error:
        return _refused(error)

    def answer(refusal: ApiError | None) -> ExpireDelegationTokenResponse:
        if refusal is not None:
            return _refused(refusal)
        return ExpireDelegationTokenResponse(expiry_timestamp_ms=expires_ms)

    if shortened is None:
        return respond(controller.drop_token(token), answer)
    return respond(controller.change_token(shortened), answer)


def _expired(
    request: ExpireDelegationTokenRequest, context: RequestContext
) -> tuple[DelegationToken, DelegationToken | None, int]:
    """The token, its new state (`None`: removed at once), and its end; raises `ApiError`."""
    token = own_token(bytes(request.hmac), context)
    shortened, expires_ms = lifetimes_of(context).expired(
        token, request.expiry_time_period_ms, context.at.now_ms
    )
    return token, shortened, expires_ms


def _refused(error: ApiError) -> ExpireDelegationTokenResponse:
    return ExpireDelegationTokenResponse(error_code=error.code, expiry_timestamp_ms=-1)
