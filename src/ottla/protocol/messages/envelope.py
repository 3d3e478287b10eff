"""Envelope (58): a broker passes a client's request on to the controller (KIP-590).

The request inside has its own header, and so has the response.
"""

from ottla.codec.fields import binary, int16, records
from ottla.codec.primitives import Records
from ottla.codec.schema import Message


class EnvelopeRequest(Message, api_key=58, versions="0", flexible="0+"):
    """`request_principal` is a serialized `DefaultPrincipalData`. `request_data` may have many
    megabytes, and is a view of the frame.
    """

    request_data: Records = records("0+", default=b"")
    request_principal: bytes | None = binary("0+", nullable="0+")
    client_host_address: bytes = binary("0+")


class EnvelopeResponse(Message, api_key=58, versions="0", flexible="0+"):
    response_data: Records | None = records("0+", nullable="0+")
    error_code: int = int16("0+")
