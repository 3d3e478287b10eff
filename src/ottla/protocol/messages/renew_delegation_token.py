"""RenewDelegationToken (39): extends the lifetime of a delegation token (KIP-48)."""

from ottla.codec.fields import binary, int16, int32, int64
from ottla.codec.schema import Message


class RenewDelegationTokenRequest(Message, api_key=39, versions="0-2", flexible="2+"):
    hmac: bytes = binary("0+")
    renew_period_ms: int = int64("0+")


class RenewDelegationTokenResponse(Message, api_key=39, versions="0-2", flexible="2+"):
    error_code: int = int16("0+")
    expiry_timestamp_ms: int = int64("0+")
    throttle_time_ms: int = int32("0+")
