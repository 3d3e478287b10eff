"""SaslAuthenticate, 0 to 2: refused, for connections are plain.

Kafka's counterpart: `KafkaApis.handleSaslAuthenticateRequest`.
"""

from ottla.base.error_codes import ErrorCode
from ottla.protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from ottla.server.request_context import RequestContext


def handle(request: SaslAuthenticateRequest, context: RequestContext) -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(
        error_code=ErrorCode.ILLEGAL_SASL_STATE, error_message="This listener is without SASL."
    )
