"""DescribeDelegationToken, 0 to 3: refused, as Kafka does on a connection without authentication.

Kafka's counterpart: `KafkaApis.allowTokenRequests` (KIP-48).
"""

from ottla.base.error_codes import ErrorCode
from ottla.protocol.messages.describe_delegation_token import (
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from ottla.server.request_context import RequestContext


def handle(
    request: DescribeDelegationTokenRequest, context: RequestContext
) -> DescribeDelegationTokenResponse:
    return DescribeDelegationTokenResponse(
        error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    )
