"""An authority of certificates, and those that it signs: what an administrator makes by openssl."""

import ssl
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("cryptography")

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.oid import NameOID

if TYPE_CHECKING:
    from collections.abc import Sequence

PEM = serialization.Encoding.PEM
PKCS8 = serialization.PrivateFormat.PKCS8
LOCALHOST = [x509.DNSName("localhost"), x509.IPAddress(ip_address("127.0.0.1"))]


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """A private key and its certificate."""

    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate

    def key_pem(self, password: str = "") -> str:
        locked: serialization.KeySerializationEncryption = serialization.NoEncryption()
        if password:
            locked = serialization.BestAvailableEncryption(password.encode())
        return self.key.private_bytes(PEM, PKCS8, locked).decode()

    @property
    def certificate_pem(self) -> str:
        return self.certificate.public_bytes(PEM).decode()

    def write(self, path: Path, password: str = "") -> Path:
        """Both in one file of PEM, as Kafka's keystores have them."""
        path.write_text(self.key_pem(password) + self.certificate_pem)
        return path

    def pkcs12(self, password: str, authority: "Authority") -> bytes:
        locked = serialization.BestAvailableEncryption(password.encode())
        others = [authority.certificate]
        return pkcs12.serialize_key_and_certificates(
            b"ottla", self.key, self.certificate, others, locked
        )


class Authority:
    """Signs with one key; `certificate` is what its clients and servers trust."""

    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        name = f"Authority {x509.random_serial_number()}"
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name[:64])])
        self.certificate = self._signed(self._name, self._key, [], is_authority=True)

    @property
    def pem(self) -> str:
        return self.certificate.public_bytes(PEM).decode()

    def write(self, path: Path) -> Path:
        path.write_text(self.pem)
        return path

    def server(self) -> Identity:
        """Of localhost."""
        return self.client("localhost")

    def client(self, name: str, organization: str = "") -> Identity:
        attributes = [x509.NameAttribute(NameOID.COMMON_NAME, name)]
        if organization:
            attributes.insert(0, x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization))
        key = ec.generate_private_key(ec.SECP256R1())
        names = LOCALHOST if name == "localhost" else []
        return Identity(key=key, certificate=self._signed(x509.Name(attributes), key, names))

    def _signed(
        self,
        subject: x509.Name,
        key: ec.EllipticCurvePrivateKey,
        names: "Sequence[x509.GeneralName]",
        *,
        is_authority: bool = False,
    ) -> x509.Certificate:
        now = datetime.now(UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=30))
            .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        )
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return builder.sign(self._key, hashes.SHA256())


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
