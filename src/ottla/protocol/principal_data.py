"""Who has asked a broker that passes the request on, as an Envelope names the client (KIP-590).

Kafka's counterparts: `DefaultPrincipalData`, `DefaultKafkaPrincipalBuilder`.
"""

from ottla.base.files import Buffer
from ottla.base.principal import Principal
from ottla.codec.fields import boolean, string
from ottla.codec.schema import Message
from ottla.codec.versioned import decode_versioned, encode_versioned


class DefaultPrincipalData(Message, versions="0", flexible="0+"):
    """`token_authenticated`: the client has logged in by a delegation token."""

    type: str = string("0+")
    name: str = string("0+")
    token_authenticated: bool = boolean("0+")


def encode_principal(principal: Principal, *, is_by_token: bool) -> bytes:
    """The version of the message (int16), and the message."""
    data = DefaultPrincipalData(
        type=principal.type, name=principal.name, token_authenticated=is_by_token
    )
    return encode_versioned(data, 0)


def decode_principal(value: Buffer) -> tuple[Principal, bool]:
    """The principal, and whether it has logged in by a token; raises `ProtocolError`."""
    data = decode_versioned(DefaultPrincipalData, value)
    return Principal(data.type, data.name), data.token_authenticated
