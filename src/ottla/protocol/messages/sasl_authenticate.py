"""SaslAuthenticate (36): one message of a SASL exchange (KIP-152).

Version 1 adds the time until the client must authenticate again (KIP-368).
"""

from ottla.codec.fields import binary, int16, int64, string
from ottla.codec.schema import Message


class SaslAuthenticateRequest(Message, api_key=36, versions="0-2", flexible="2+"):
    auth_bytes: bytes = binary("0+")


class SaslAuthenticateResponse(Message, api_key=36, versions="0-2", flexible="2+"):
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
    auth_bytes: bytes = binary("0+")
    session_lifetime_ms: int = int64("1+", ignorable=True)
