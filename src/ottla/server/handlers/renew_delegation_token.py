"""RenewDelegationToken, 0 to 2: refused, as Kafka does on a connection without authentication.

Kafka's counterpart: `KafkaApis.allowTokenRequests` (KIP-48).
"""

from ottla.base.error_codes import ErrorCode
from ottla.protocol.messages.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)
from ottla.server.request_context import RequestContext


def handle(
    request: RenewDelegationTokenRequest, context: RequestContext
) -> RenewDelegationTokenResponse:
    return RenewDelegationTokenResponse(error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)
