"""SaslHandshake (17): selects a SASL mechanism.

After version 0 raw SASL messages follow on the connection; after version 1 each is a
SaslAuthenticate request (KIP-152). Never flexible, so that old clients can read the error.
"""

from ottla.codec.fields import array, int16, string
from ottla.codec.schema import Message


class SaslHandshakeRequest(Message, api_key=17, versions="0-1"):
    mechanism: str = string("0+")


class SaslHandshakeResponse(Message, api_key=17, versions="0-1"):
    error_code: int = int16("0+")
    mechanisms: list[str] = array(string, "0+")
