"""Certificates for tests, made when they are needed: an authority, a server's, a client's.

Needs `cryptography`. They are valid for localhost and 127.0.0.1, for thirty days.
"""

from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.base.extras import needed_for

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec

VALID = timedelta(days=30)


class Certificates:
    """Files of PEM in a directory: `authority`, whom clients trust, and what it has signed."""

    def __init__(self, directory: Path) -> None:
        """Raises `UserError` without `cryptography`."""
        with needed_for("certificates for tests"):
            from cryptography.hazmat.primitives.asymmetric import ec
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._authority = self._signed("authority of tests", self._key, is_authority=True)
        self.authority = directory / "authority.pem"
        self.authority.write_bytes(_pem(self._authority))
        self.server = self.made_for("localhost")
        """Key and certificate of the broker, in one file."""

    def made_for(self, name: str) -> Path:
        """A key and its certificate in one file, as a client shows them that is called so."""
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ec

        key = ec.generate_private_key(ec.SECP256R1())
        text = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        path = self._directory / f"{name}.pem"
        path.write_bytes(text + _pem(self._signed(name, key)))
        return path

    def _signed(
        self, name: str, key: "ec.EllipticCurvePrivateKey", *, is_authority: bool = False
    ) -> "x509.Certificate":
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes
        from cryptography.x509.oid import NameOID

        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        now = datetime.now(UTC)
        here = [x509.DNSName("localhost"), x509.IPAddress(ip_address("127.0.0.1"))]
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(subject if is_authority else self._authority.subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - VALID)
            .not_valid_after(now + VALID)
            .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName(here), critical=False)
        )
        return builder.sign(self._key, hashes.SHA256())


def _pem(certificate: "x509.Certificate") -> bytes:
    from cryptography.hazmat.primitives import serialization

    return certificate.public_bytes(serialization.Encoding.PEM)
