"""Detects other protocols on a broker's port by the first four bytes, the frame size in Kafka.

curl, a browser or a load balancer's check sends HTTP; a client with wrong settings begins TLS.
Kafka has no counterpart: it closes the connection because of the size.
"""

from typing import Final

from ottla.base.errors import ProtocolError

HTTP_VERBS: Final = (
    b"GET ", b"HEAD", b"POST", b"PUT ", b"DELE", b"OPTI", b"PATC", b"CONN", b"TRAC", b"PRI "
)  # fmt: skip
TLS_HANDSHAKE: Final = b"\x16\x03"

_TEXT: Final = (
    b"This is a Kafka broker. It speaks Kafka's protocol, and no HTTP.\n"
    b"Name this HOST:PORT to a Kafka client as bootstrap server, or run: ottla topics list "
    b"HOST:PORT\n"
)
HTTP_ANSWER: Final = (
    b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\n"
    b"Content-Length: %d\r\n\r\n" % len(_TEXT)
) + _TEXT


class ForeignProtocolError(ProtocolError):
    """The peer speaks another protocol; `answer` is sent in that protocol before the connection is
    closed.
    """

    def __init__(self, message: str, answer: bytes = b"") -> None:
        super().__init__(message)
        self.answer = answer


def foreign_protocol(first: bytes) -> ForeignProtocolError | None:
    """The error for an invalid size that begins another protocol; `None` for others."""
    if first.startswith(HTTP_VERBS):
        return ForeignProtocolError(
            "it speaks HTTP, but this port is for Kafka clients; metrics have an address of "
            "their own (ottla serve --metrics HOST:PORT)",
            HTTP_ANSWER,
        )
    if first.startswith(TLS_HANDSHAKE):
        return ForeignProtocolError(
            "it speaks TLS, but this port is PLAINTEXT; set the client's "
            "security.protocol=PLAINTEXT"
        )
    return None
