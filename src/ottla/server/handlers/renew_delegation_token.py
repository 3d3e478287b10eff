"""RenewDelegationToken, 0 to 2: lets a token live longer, for its owner and its renewers.

Kafka's counterpart: `DelegationTokenControlManager.renewDelegationToken` (KIP-48).
"""

from ottla.base.errors import ApiError
from ottla.broker.security.tokens import DelegationToken
from ottla.protocol.messages.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)
from ottla.server.request_context import RequestContext
from ottla.server.token_fields import lifetimes_of, own_token


def handle(
    request: RenewDelegationTokenRequest, context: RequestContext
) -> RenewDelegationTokenResponse:
    context.may_take_long()
    try:
        token = renewed(request, context)
        context.broker.security.change_token(token)
    except ApiError as error:
        return answer(error)
    return answer(token.expires_ms)


def renewed(request: RenewDelegationTokenRequest, context: RequestContext) -> DelegationToken:
    """Raises `ApiError`."""
    token = own_token(bytes(request.hmac), context)
    return lifetimes_of(context).renewed(token, request.renew_period_ms, context.at.now_ms)


def answer(expires_ms: int | ApiError) -> RenewDelegationTokenResponse:
    if isinstance(expires_ms, ApiError):
        return RenewDelegationTokenResponse(error_code=expires_ms.code, expiry_timestamp_ms=-1)
    return RenewDelegationTokenResponse(expiry_timestamp_ms=expires_ms)
