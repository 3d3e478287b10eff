"""ExpireDelegationToken (40): changes the expiry of a delegation token, or expires it (KIP-48)."""

from ottla.codec.fields import binary, int16, int32, int64
from ottla.codec.schema import Message


class ExpireDelegationTokenRequest(Message, api_key=40, versions="0-2", flexible="2+"):
    hmac: bytes = binary("0+")
    expiry_time_period_ms: int = int64("0+")


class ExpireDelegationTokenResponse(Message, api_key=40, versions="0-2", flexible="2+"):
    error_code: int = int16("0+")
    expiry_timestamp_ms: int = int64("0+")
    throttle_time_ms: int = int32("0+")
