"""The client's side of SCRAM: proves a password without sending it (RFC 5802, RFC 7677; KIP-84).

Three messages: the client's first, the server's challenge with the client's proof, and the server's
own proof. Kafka's counterpart: `ScramSaslClient`.
"""

import hashlib
import hmac

from ottla.base.errors import ProtocolError
from ottla.base.scram import (
    HASHES,
    MIN_ITERATIONS,
    bytes_text,
    combined,
    escaped,
    mac,
    parse_bytes,
    parse_fields,
    salt_password,
)

MAX_ASKED_ITERATIONS = 1_000_000
"""Maximum iterations that a server may ask for; more are refused."""

MAX_DIGITS = 10

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
        self._mechanism = mechanism
        self._hash = HASHES[mechanism]
        self._password = password.encode()
        self._nonce = nonce
        extension = ",tokenauth=true" if is_token else ""
        self._first = f"n={escaped(username)},r={nonce}{extension}"
        self._server_proof = b""

    def first(self) -> bytes:
        return f"{_NO_CHANNEL_BINDING}{self._first}".encode()

    def prove(self, challenge: bytes) -> bytes:
        """The response to the server's first message; raises `ProtocolError` for an invalid one."""
        fields = parse_fields(challenge)
        if "e" in fields:
            raise ProtocolError(f"SCRAM: the server says {fields['e']}")
        nonce, salt = fields.get("r", ""), parse_bytes(fields.get("s", ""))
        asked = fields.get("i", "")
        iterations = int(asked) if asked.isdecimal() and len(asked) < MAX_DIGITS else 0
        if not nonce.startswith(self._nonce) or nonce == self._nonce:
            raise ProtocolError("SCRAM: the server's nonce does not begin with the client's")
        if not MIN_ITERATIONS <= iterations <= MAX_ASKED_ITERATIONS:
            raise ProtocolError(f"SCRAM: the server asks for {asked[:MAX_DIGITS]} iterations")
        salted = salt_password(self._mechanism, self._password, salt, iterations)
        final = f"c={bytes_text(_NO_CHANNEL_BINDING.encode())},r={nonce}"
        signed = b",".join((self._first.encode(), challenge, final.encode()))
        client_key = mac(self._hash, salted, b"Client Key")
        signature = mac(self._hash, hashlib.new(self._hash, client_key).digest(), signed)
        self._server_proof = mac(self._hash, mac(self._hash, salted, b"Server Key"), signed)
        return f"{final},p={bytes_text(combined(client_key, signature))}".encode()

    def check(self, final: bytes) -> None:
        """Raises `ProtocolError` unless the server has proven that it knows the password too."""
        fields = parse_fields(final)
        if "e" in fields:
            raise ProtocolError(f"SCRAM: the server says {fields['e']}")
        proof = parse_bytes(fields.get("v", ""))
        if not self._server_proof or not hmac.compare_digest(proof, self._server_proof):
            raise ProtocolError("SCRAM: the server does not know the password either")
