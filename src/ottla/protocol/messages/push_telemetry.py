"""PushTelemetry (72): a client's metrics, as OpenTelemetry bytes (KIP-714)."""

from ottla.base.ids import Uuid
from ottla.codec.fields import binary, boolean, int8, int16, int32, uuid
from ottla.codec.schema import Message


class PushTelemetryRequest(Message, api_key=72, versions="0", flexible="0+"):
    client_instance_id: Uuid = uuid("0+")
    subscription_id: int = int32("0+")
    terminating: bool = boolean("0+")
    compression_type: int = int8("0+")
    metrics: bytes = binary("0+")


class PushTelemetryResponse(Message, api_key=72, versions="0", flexible="0+"):
    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
