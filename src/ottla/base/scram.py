"""SCRAM credentials, which client and broker share (RFC 5802, RFC 7677; KIP-84).

Hashes are computed with `hashlib` and `hmac`, because the library scramp, which handles the proofs
of a login, normalizes passwords (SASLprep), which Kafka does not, and cannot create a credential
from the salted password in `AlterUserScramCredentials`. Kafka's counterparts: `ScramFormatter`,
`ScramCredential`.
"""

import base64
from collections.abc import Mapping
from dataclasses import field

from ottla.base.errors import ProtocolError
from ottla.base.values import dataclass

HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
"""Kafka's mechanisms, and Python's names of their hashes."""

MECHANISM_CODES = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}
"""Kafka's numbers of the mechanisms."""

CODES_OF_MECHANISMS = {name: code for code, name in MECHANISM_CODES.items()}

MIN_ITERATIONS = 4096
MAX_ITERATIONS = 16384
"""Kafka's bounds for a credential: fewer iterations make guessing easy, more keep clients busy."""

SALT_SIZE = 16

STAND_IN = "-"
"""A name and password for scramp, which would normalize the real ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScramCredential:
    """The stored form of a password, with which a broker verifies it without knowing it."""

    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
    iterations: int


Credentials = Mapping[tuple[str, str], ScramCredential]
"""By name of the user and mechanism."""


def credential_of_salted(
    mechanism: str, salted: bytes, salt: bytes, iterations: int
) -> ScramCredential:
    """The credential of a salted password, as AlterUserScramCredentials contains it."""
    import hashlib

    name = HASHES[mechanism]
    return ScramCredential(
        salt=salt,
        stored_key=hashlib.new(name, mac(name, salted, b"Client Key")).digest(),
        server_key=mac(name, salted, b"Server Key"),
        iterations=iterations,
    )


def make_credential(
    mechanism: str, password: bytes, salt: bytes, iterations: int
) -> ScramCredential:
    """The credential of a password."""
    salted = salt_password(mechanism, password, salt, iterations)
    return credential_of_salted(mechanism, salted, salt, iterations)


def salt_password(mechanism: str, password: bytes, salt: bytes, iterations: int) -> bytes:
    """The salted password; the iterations deliberately take milliseconds."""
    import hashlib

    return hashlib.pbkdf2_hmac(HASHES[mechanism], password, salt, iterations)


def mac(hash_name: str, key: bytes, text: bytes) -> bytes:
    import hmac

    return hmac.new(key, text, hash_name).digest()


def escaped(name: str) -> str:
    """A name as encoded in SCRAM messages."""
    return name.replace("=", "=3D").replace(",", "=2C")


def unescaped(name: str) -> str:
    """The inverse of `escaped`; raises `ProtocolError`."""
    parts = name.split("=")
    if any(part[:2] not in ("3D", "2C") for part in parts[1:]):
        raise ProtocolError("SCRAM: a name has = without 3D or 2C after it")
    return name.replace("=2C", ",").replace("=3D", "=")


def refusal_text(error: Exception) -> str:
    """The reason for which scramp rejected a message, as part of a line."""
    return f"SCRAM: {error}".replace(".: ", ": ")


def bytes_text(value: bytes) -> str:
    return base64.b64encode(value).decode()
