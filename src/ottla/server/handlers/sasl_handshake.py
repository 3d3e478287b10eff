"""SaslHandshake, 0 and 1: refused, for connections are plain, or have logged in already.

Kafka's counterpart: `KafkaApis.handleSaslHandshakeRequest`, where those of a plain listener
arrive.
"""

from ottla.base.error_codes import ErrorCode
from ottla.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from ottla.server.dispatching.request_context import RequestContext


def handle(request: SaslHandshakeRequest, context: RequestContext) -> SaslHandshakeResponse:
    return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
