"""The client's side of SCRAM: proves a password without sending it (RFC 5802, RFC 7677; KIP-84).

Three messages: the client's first, the server's challenge with the client's proof, and the server's
own proof. The library scramp makes and checks the proofs. It normalizes names and passwords
(SASLprep), of which Kafka takes the bytes as they are, and knows no delegation tokens: it gets the
password and the text to sign as they are meant. Kafka's counterpart: `ScramSaslClient`.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import scramp

from ottla.base.errors import ProtocolError
from ottla.base.scram import STAND_IN, escaped, refusal_text

MAX_ASKED_ITERATIONS = 1_000_000
"""Maximum iterations that a server may ask for; more are refused."""

_NO_CHANNEL_BINDING = "n,,"


class ScramClient:
    """One login; `nonce` is made of printable characters without commas, and new each time.

    `is_token`: name and password are those of a delegation token (KIP-48).
    """

    def __init__(
        self,
        mechanism: str,
        username: str,
        password: str,
        nonce: str,
        *,
        is_token: bool = False,
    ) -> None:
        extension = ",tokenauth=true" if is_token else ""
        self._exchange = scramp.ScramClient([mechanism], STAND_IN, STAND_IN, c_nonce=nonce)
        self._exchange.get_client_first()
        self._exchange.client_first_bare = f"n={escaped(username)},r={nonce}{extension}"
        self._exchange.password = password.encode()

    def first(self) -> bytes:
        return f"{_NO_CHANNEL_BINDING}{self._exchange.client_first_bare}".encode()

    def prove(self, challenge: bytes) -> bytes:
        """The response to the server's first message; raises `ProtocolError` for an invalid one."""
        with _refused():
            self._exchange.set_server_first(challenge.decode())
        iterations = int(self._exchange.iterations)
        if iterations > MAX_ASKED_ITERATIONS:
            raise ProtocolError(f"SCRAM: the server asks for {iterations} iterations")
        return str(self._exchange.get_client_final()).encode()

    def check(self, final: bytes) -> None:
        """Raises `ProtocolError` unless the server has proven that it knows the password too."""
        with _refused():
            self._exchange.set_server_final(final.decode())


@contextmanager
def _refused() -> Iterator[None]:
    try:
        yield
    except scramp.ScramException as error:
        raise ProtocolError(refusal_text(error)) from error
    except UnicodeDecodeError as error:
        raise ProtocolError("SCRAM: a message is not text") from error
