"""UnregisterController (94): a controller that votes no more leaves the cluster's metadata
(KIP-1312)."""

from ottla.codec.fields import int16, int32, string
from ottla.codec.schema import Message


class UnregisterControllerRequest(Message, api_key=94, versions="0", flexible="0+"):
    controller_id: int = int32("0+")


class UnregisterControllerResponse(Message, api_key=94, versions="0", flexible="0+"):
    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
