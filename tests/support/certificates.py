"""The authority of certificates that tests share, and what clients and stores make of it."""

import ssl
from functools import cache
from pathlib import Path

import pytest

pytest.importorskip("cryptography")

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import pkcs12

from ottla.testing.certificates import Authority, Identity

__all__ = ["Authority", "Identity", "authority", "client_context", "pkcs12_store"]


@cache
def authority() -> Authority:
    """One for all tests of a process; no test changes it."""
    return Authority()


def client_context(
    trusted: Authority, identity: Identity | None = None, directory: Path | None = None
) -> ssl.SSLContext:
    """Of a client that trusts an authority, and shows a certificate (kept in `directory`)."""
    context = ssl.create_default_context(cadata=trusted.pem)
    if identity is not None:
        assert directory is not None
        context.load_cert_chain(identity.write(directory / "client.pem"))
    return context


def pkcs12_store(identity: Identity, password: str, signer: Authority | None = None) -> bytes:
    """With the certificate of the authority that signed the identity's: by default the shared."""
    locked = serialization.BestAvailableEncryption(password.encode())
    others = [(signer or authority()).certificate]
    return pkcs12.serialize_key_and_certificates(
        b"ottla", identity.key, identity.certificate, others, locked
    )
