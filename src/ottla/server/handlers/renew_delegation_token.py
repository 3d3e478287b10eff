"""RenewDelegationToken, 0 to 2: lets a token live longer, for its owner and its renewers.

Kafka's counterpart: `DelegationTokenControlManager.renewDelegationToken` (KIP-48).
"""

from ottla.base.errors import ApiError
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
        token = lifetimes_of(context).renewed(
            own_token(bytes(request.hmac), context), request.renew_period_ms, context.at.now_ms
        )
        context.broker.security.change_token(token)
    except ApiError as error:
        return RenewDelegationTokenResponse(error_code=error.code, expiry_timestamp_ms=-1)
    return RenewDelegationTokenResponse(expiry_timestamp_ms=token.expires_ms)
