"""GetTelemetrySubscriptions, 0: no metrics are requested from clients. Handled but not listed by
ApiVersions, as in Kafka while no plugin receives metrics, so that clients that check ApiVersions
never send it. Kafka's counterpart: `ClientMetricsManager` (KIP-714).
"""

from ottla.base.ids import Uuid, is_reserved
from ottla.codec.crc32c import crc32c
from ottla.protocol.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from ottla.server.dispatching.request_context import RequestContext

PUSH_INTERVAL_MS = 300_000
"""The interval after which a client asks again."""

TELEMETRY_MAX_BYTES = 1_048_576

ZSTD, LZ4, GZIP, SNAPPY = 4, 3, 1, 2


def handle(
    request: GetTelemetrySubscriptionsRequest, context: RequestContext
) -> GetTelemetrySubscriptionsResponse:
    instance_id = request.client_instance_id
    if is_reserved(instance_id):
        instance_id = context.broker.options.new_id()
    return GetTelemetrySubscriptionsResponse(
        client_instance_id=instance_id,
        subscription_id=subscription_id_of(instance_id),
        accepted_compression_types=[ZSTD, LZ4, GZIP, SNAPPY],
        push_interval_ms=PUSH_INTERVAL_MS,
        telemetry_max_bytes=TELEMETRY_MAX_BYTES,
        delta_temporality=True,
    )


def subscription_id_of(instance_id: Uuid) -> int:
    """The id that the client must repeat; of the empty subscription, one per client."""
    return crc32c(instance_id) >> 1
