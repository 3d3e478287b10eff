"""The client's half of SCRAM: a password proven without being said (RFC 5802, RFC 7677; KIP-84).

Three texts: the client's first, the server's challenge with the client's proof, and the server's
own proof. Kafka's counterparts: `ScramSaslClient`, `ScramFormatter`, which takes a password's bytes
as they are: the RFC's normalization (SASLprep), which libraries do, would have some refused.
"""

import base64
import binascii
import hashlib
import hmac

from ottla.base.errors import ProtocolError
from ottla.client.security import HASHES

MIN_ITERATIONS = 4096
MAX_ITERATIONS = 1_000_000
"""Rounds that a server may ask for: fewer give the password away, more are no login."""

_NO_CHANNEL_BINDING = "n,,"


class ScramClient:
    """One login; `nonce` is made of printable characters without commas, and new each time."""

    def __init__(self, mechanism: str, username: str, password: str, nonce: str) -> None:
        self._hash = HASHES[mechanism]
        self._password = password.encode()
        self._nonce = nonce
        name = username.replace("=", "=3D").replace(",", "=2C")
        self._first = f"n={name},r={nonce}"
        self._server_proof = b""

    def first(self) -> bytes:
        return f"{_NO_CHANNEL_BINDING}{self._first}".encode()

    def prove(self, challenge: bytes) -> bytes:
        """The answer to the server's first text; raises `ProtocolError` for a strange one."""
        fields = _fields(challenge)
        nonce, salt = fields.get("r", ""), _bytes(fields.get("s", ""))
        iterations = int(fields["i"]) if fields.get("i", "").isdecimal() else 0
        if not nonce.startswith(self._nonce) or nonce == self._nonce:
            raise ProtocolError("SCRAM: the server did not take up the client's nonce")
        if not MIN_ITERATIONS <= iterations <= MAX_ITERATIONS:
            raise ProtocolError(f"SCRAM: the server asks for {iterations} iterations")
        salted = hashlib.pbkdf2_hmac(self._hash, self._password, salt, iterations)
        binding = base64.b64encode(_NO_CHANNEL_BINDING.encode()).decode()
        final = f"c={binding},r={nonce}"
        signed = b",".join((self._first.encode(), challenge, final.encode()))
        client_key = self._mac(salted, b"Client Key")
        signature = self._mac(hashlib.new(self._hash, client_key).digest(), signed)
        proof = bytes(one ^ other for one, other in zip(client_key, signature, strict=True))
        self._server_proof = self._mac(self._mac(salted, b"Server Key"), signed)
        return f"{final},p={base64.b64encode(proof).decode()}".encode()

    def check(self, final: bytes) -> None:
        """Raises `ProtocolError` unless the server has proven that it knows the password too."""
        fields = _fields(final)
        if "e" in fields:
            raise ProtocolError(f"SCRAM: the server says {fields['e']}")
        proof = _bytes(fields.get("v", ""))
        if not self._server_proof or not hmac.compare_digest(proof, self._server_proof):
            raise ProtocolError("SCRAM: the server does not know the password either")

    def _mac(self, key: bytes, text: bytes) -> bytes:
        return hmac.new(key, text, self._hash).digest()


def _fields(text: bytes) -> dict[str, str]:
    try:
        parts = text.decode().split(",")
    except UnicodeDecodeError as error:
        raise ProtocolError("SCRAM: the server's answer is no text") from error
    return {part[:1]: part[2:] for part in parts if part[1:2] == "="}


def _bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise ProtocolError("SCRAM: the server's answer is not in base64") from error
