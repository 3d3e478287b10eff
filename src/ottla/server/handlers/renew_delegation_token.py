"""RenewDelegationToken, 0 to 2: lets a token live longer, for its owner and its renewers.

Kafka's counterpart: `DelegationTokenControlManager.renewDelegationToken` (KIP-48).
"""

from ottla.base.errors import ApiError
from ottla.codec.schema import Message
from ottla.metadata.tokens import DelegationToken
from ottla.protocol.messages.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)
from ottla.server.dispatching.request_context import PendingResponse, RequestContext, respond
from ottla.server.handling.token_fields import lifetimes_of, own_token


def handle(
    request: RenewDelegationTokenRequest, context: RequestContext
) -> Message | PendingResponse:
    context.may_take_long()
    try:
        token = _renewed(request, context)
    except ApiError as error:
        return _refused(error)

    def answer(refusal: ApiError | None) -> RenewDelegationTokenResponse:
        if refusal is not None:
            return _refused(refusal)
        return RenewDelegationTokenResponse(expiry_timestamp_ms=token.expires_ms)

    return respond(context.broker.controller.change_token(token), answer)


def _renewed(request: RenewDelegationTokenRequest, context: RequestContext) -> DelegationToken:
    """Raises `ApiError`."""
    token = own_token(bytes(request.hmac), context)
    return lifetimes_of(context).renewed(token, request.renew_period_ms, context.at.now_ms)


def _refused(error: ApiError) -> RenewDelegationTokenResponse:
    return RenewDelegationTokenResponse(error_code=error.code, expiry_timestamp_ms=-1)
