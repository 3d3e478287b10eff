"""Certificates for tests: an authority, and certificates that it signs.

Needs `cryptography`. Certificates are valid for thirty days; a server's is for localhost and
127.0.0.1.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from ottla.base.values import dataclass

PEM = serialization.Encoding.PEM
PKCS8 = serialization.PrivateFormat.PKCS8
SERVER = "localhost"
SERVER_NAMES = (x509.DNSName(SERVER), x509.IPAddress(ip_address("127.0.0.1")))
VALID = timedelta(days=30)
CLOCK_SKEW = timedelta(days=1)


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
        """Writes both into one PEM file, like Kafka's keystores."""
        path.write_text(self.key_pem(password) + self.certificate_pem)
        return path


class Authority:
    """An authority; clients and servers trust its `certificate`."""

    def __init__(self, valid: timedelta = VALID) -> None:
        self._valid = valid
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
        """A server certificate for localhost."""
        return self.client(SERVER)

    def client(self, name: str, organization: str = "") -> Identity:
        attributes = [x509.NameAttribute(NameOID.COMMON_NAME, name)]
        if organization:
            attributes.insert(0, x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization))
        key = ec.generate_private_key(ec.SECP256R1())
        names = SERVER_NAMES if name == SERVER else ()
        return Identity(key=key, certificate=self._signed(x509.Name(attributes), key, names))

    def _signed(
        self,
        subject: x509.Name,
        key: ec.EllipticCurvePrivateKey,
        names: Sequence[x509.GeneralName],
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
            .not_valid_before(now - CLOCK_SKEW)
            .not_valid_after(now + self._valid)
            .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        )
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return builder.sign(self._key, hashes.SHA256())


class Certificates:
    """PEM files in a directory: `authority`, which clients trust, and what it has signed."""

    def __init__(self, directory: Path, valid: timedelta = VALID) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._authority = Authority(valid)
        self.authority = self._authority.write(directory / "authority.pem")
        self.server = self.made_for(SERVER)
        """The key and certificate of the broker, in one file."""

    def made_for(self, name: str) -> Path:
        """Creates a client's key and certificate, in one file."""
        return self._authority.client(name).write(self._directory / f"{name}.pem")
