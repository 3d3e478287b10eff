"""ExpireDelegationToken, 0 to 2: ends a token sooner, or at once with a negative period.

Kafka's counterpart: `DelegationTokenControlManager.expireDelegationToken` (KIP-48).
"""

from ottla.base.errors import ApiError
from ottla.broker.security.tokens import DelegationToken
from ottla.protocol.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from ottla.server.request_context import RequestContext
from ottla.server.token_fields import lifetimes_of, own_token


def handle(
    request: ExpireDelegationTokenRequest, context: RequestContext
) -> ExpireDelegationTokenResponse:
    context.may_take_long()
    security = context.broker.security
    try:
        token, shortened, expires_ms = expired(request, context)
        if shortened is None:
            security.drop_token(token)
        else:
            security.change_token(shortened)
    except ApiError as error:
        return answer(error)
    return answer(expires_ms)


def expired(
    request: ExpireDelegationTokenRequest, context: RequestContext
) -> tuple[DelegationToken, DelegationToken | None, int]:
    """The token, its new state (`None`: removed at once), and its end; raises `ApiError`."""
    token = own_token(bytes(request.hmac), context)
    shortened, expires_ms = lifetimes_of(context).expired(
        token, request.expiry_time_period_ms, context.at.now_ms
    )
    return token, shortened, expires_ms


def answer(expires_ms: int | ApiError) -> ExpireDelegationTokenResponse:
    if isinstance(expires_ms, ApiError):
        return ExpireDelegationTokenResponse(error_code=expires_ms.code, expiry_timestamp_ms=-1)
    return ExpireDelegationTokenResponse(expiry_timestamp_ms=expires_ms)
