"""SaslAuthenticate, 0 to 2: refused, for connections are plain, or have logged in already.

Kafka's counterpart: `KafkaApis.handleSaslAuthenticateRequest`.
"""

from ottla.base.error_codes import ErrorCode
from ottla.protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from ottla.server.dispatching.request_context import RequestContext


def handle(request: SaslAuthenticateRequest, context: RequestContext) -> SaslAuthenticateResponse:
    has_login = context.client.protocol.startswith("SASL")
    reason = "The client has logged in already." if has_login else "This listener is without SASL."
    return SaslAuthenticateResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, error_message=reason)
