"""ExpireDelegationToken, 0 to 2: refused, as Kafka does on a connection without authentication.

Kafka's counterpart: `KafkaApis.allowTokenRequests` (KIP-48).
"""

from ottla.base.error_codes import ErrorCode
from ottla.protocol.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from ottla.server.request_context import RequestContext


def handle(
    request: ExpireDelegationTokenRequest, context: RequestContext
) -> ExpireDelegationTokenResponse:
    return ExpireDelegationTokenResponse(error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)
