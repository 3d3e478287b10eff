"""PushTelemetry, 0: metrics are validated as in Kafka, and dropped.

Kafka's counterpart: `ClientMetricsManager.processPushTelemetryRequest` (KIP-714).
"""

from ottla.base.error_codes import ErrorCode
from ottla.base.ids import is_reserved
from ottla.protocol.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse
from ottla.server.dispatching.request_context import RequestContext
from ottla.server.handlers.get_telemetry_subscriptions import (
    TELEMETRY_MAX_BYTES,
    subscription_id_of,
)

COMPRESSION_TYPES = range(5)


def handle(request: PushTelemetryRequest, context: RequestContext) -> PushTelemetryResponse:
    return PushTelemetryResponse(error_code=_check(request))


def _check(request: PushTelemetryRequest) -> ErrorCode:
    if is_reserved(request.client_instance_id):
        return ErrorCode.INVALID_REQUEST
    if request.subscription_id != subscription_id_of(request.client_instance_id):
        return ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    if request.compression_type not in COMPRESSION_TYPES:
        return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    if len(request.metrics) > TELEMETRY_MAX_BYTES:
        return ErrorCode.TELEMETRY_TOO_LARGE
    return ErrorCode.NONE
