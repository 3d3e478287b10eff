"""Keystores and truststores as PEM: from files, from the settings themselves, or from PKCS12.

Used by the broker, and by our own clients (`client/connecting/login.py`). Kafka's counterpart:
`DefaultSslEngineFactory`.
"""

import contextlib
import os
import ssl
import tempfile
from collections.abc import Iterator
from pathlib import Path

from ottla.base.extras import needed_for
from ottla.base.patterns import lazy_pattern
from ottla.base.values import dataclass
from ottla.config.setting import SettingError
from ottla.config.tls import TlsConfig

KEYSTORE = "ssl.keystore.location"
TRUSTSTORE = "ssl.truststore.location"

JKS_MAGIC = b"\xfe\xed\xfe\xed"
DER_SEQUENCE = 0x30
"""The first byte of every PKCS12 file."""

_BLOCK = lazy_pattern(
    rb"-----BEGIN ([A-Z0-9 ]*)-----\s+((?:[A-Za-z-]+:[^\n]*\n)*[^-]*?)\s*-----END \1-----",
)
"""The headers of an old encrypted key (RFC 1421) have dashes: `Proc-Type: 4,ENCRYPTED`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Keystore:
    """A private key and its certificates, in PEM; `password` opens the key."""

    pem: bytes
    password: str


def store_error(name: str, reason: str) -> SettingError:
    """Shows no value, since it may be a secret."""
    return SettingError(
        name, f"{name}: {reason}", f"Invalid value for configuration {name}: {reason}"
    )


def read_keystore(config: TlsConfig) -> Keystore:
    """The broker's own keystore; raises `SettingError` with the reason, and `UserError`."""
    password = config.ssl_key_password or ""
    key, chain = config.ssl_keystore_key, config.ssl_keystore_certificate_chain
    if key or chain:
        _check_inline("ssl.keystore.key", config.ssl_keystore_type, config.ssl_keystore_location)
        if not key or not chain:
            missing = "ssl.keystore.certificate.chain" if key else "ssl.keystore.key"
            raise store_error(missing, "ssl.keystore.key and its certificate chain go together")
        texts = _pem("ssl.keystore.key", key), _pem("ssl.keystore.certificate.chain", chain)
        return Keystore(pem=b"".join(texts), password=password)
    path = config.ssl_keystore_location
    if not path:
        raise store_error(
            KEYSTORE, "a listener with TLS needs a key and a certificate: set their file"
        )
    data = _read(KEYSTORE, path)
    if data[0] == DER_SEQUENCE:
        return Keystore(pem=_pkcs12_keys(path, data, config.ssl_keystore_password), password="")
    return Keystore(pem=_pem(KEYSTORE, data, path), password=password)


def read_truststore(config: TlsConfig) -> str | None:
    """The PEM certificates that must have signed those of peers, if any are given."""
    certificates = config.ssl_truststore_certificates
    if certificates:
        name = "ssl.truststore.certificates"
        _check_inline(name, config.ssl_truststore_type, config.ssl_truststore_location)
        return _pem(name, certificates).decode("ascii")
    path = config.ssl_truststore_location
    if not path:
        return None
    data = _read(TRUSTSTORE, path)
    if data[0] == DER_SEQUENCE:
        return _pkcs12_certificates(path, data, config.ssl_truststore_password)
    return _pem(TRUSTSTORE, data, path).decode("ascii")


def load_keys(context: ssl.SSLContext, config: TlsConfig) -> None:
    """Makes a context present the keystore's certificate; raises `SettingError`."""
    store = read_keystore(config)
    name = KEYSTORE if config.ssl_keystore_location else "ssl.keystore.key"
    try:
        with _private_file(store.pem) as path:
            # Without a password OpenSSL would ask for one at the terminal.
            context.load_cert_chain(path, password=store.password)
    except ssl.SSLError as error:
        raise store_error(name, _why_unusable(error, store)) from error
    except ValueError as error:
        raise store_error("ssl.key.password", f"OpenSSL does not accept it: {error}") from error
    except OSError as error:
        raise store_error(name, f"it cannot be read: {error}") from error


def _why_unusable(error: ssl.SSLError, store: Keystore) -> str:
    match error.reason:
        case "KEY_VALUES_MISMATCH" | "KEY_TYPE_MISMATCH":
            return "the private key is not that of the first certificate"
        case "EE_KEY_TOO_SMALL" | "CA_MD_TOO_WEAK" | "CA_KEY_TOO_SMALL":
            return f"the certificate is too weak for OpenSSL ({error.reason})"
        case _ if b"ENCRYPTED" in store.pem:
            return "the private key does not open; check ssl.key.password"
        case _:
            return "it must hold a private key and its certificates, in PEM"


@contextlib.contextmanager
def _private_file(data: bytes) -> Iterator[str]:
    """A file for OpenSSL, which reads keys only from files: in memory if possible."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("ottla-keystore")
        try:
            os.write(descriptor, data)
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
        return
    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        yield file.name


def store_files(config: TlsConfig) -> list[str]:
    """The files that both stores are read from."""
    paths = (config.ssl_keystore_location, config.ssl_truststore_location)
    return [path for path in paths if path]


def _check_inline(name: str, kind: str, location: str | None) -> None:
    if kind != "PEM":
        store = name.split(".")[1]
        raise store_error(name, f"ssl.{store}.type={kind}: keys in settings are PEM; set it to PEM")
    if location:
        raise store_error(
            name, "either the setting has the PEM itself, or a file; give one of them"
        )


def _read(name: str, path: str) -> bytes:
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise store_error(name, f"{path}: {error.strerror}") from error
    if data.startswith(JKS_MAGIC):
        raise store_error(
            name,
            f"{path} has Java's own format; convert it: keytool -importkeystore "
            f"-srckeystore {path} -destkeystore {path}.p12 -deststoretype PKCS12",
        )
    if not data:
        raise store_error(name, f"{path} is empty")
    return data


def _pem(name: str, text: str | bytes, path: str = "") -> bytes:
    """Only the PEM blocks, in lines of 64: a properties file has everything on one line."""
    data = text.encode() if isinstance(text, str) else text
    data = data.replace(b"\\n", b"\n")
    blocks = [
        b"-----BEGIN %b-----\n%b\n-----END %b-----\n" % (kind, _lines(body), kind)
        for kind, body in _BLOCK.findall(data)
    ]
    where = f"{path} " if path else ""
    if not blocks:
        raise store_error(name, f"{where}has neither PEM (-----BEGIN ...) nor PKCS12")
    if data.count(b"-----BEGIN ") != len(blocks):
        raise store_error(name, f"{where}has a -----BEGIN ... without its end: it was cut off")
    pem = b"".join(blocks)
    if not pem.isascii():
        raise store_error(name, f"{where}has bytes that are not valid in PEM")
    return pem


def _lines(body: bytes) -> bytes:
    if (
        b":" in body
    ):  # the headers of an old encrypted key (RFC 1421), which have lines of their own
        return body
    joined = b"".join(body.split())
    return b"\n".join(joined[at : at + 64] for at in range(0, len(joined), 64))


def _pkcs12_keys(path: str, data: bytes, password: str | None) -> bytes:
    with needed_for(f"{KEYSTORE}={path} is PKCS12"):
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.serialization import pkcs12
    try:
        store = pkcs12.load_pkcs12(data, (password or "").encode() or None)
    except ValueError as error:
        raise store_error("ssl.keystore.password", f"does not open {path}: {error}") from error
    if store.key is None or store.cert is None:
        raise store_error(KEYSTORE, f"{path} has no private key with a certificate")
    pem = serialization.Encoding.PEM
    key = store.key.private_bytes(
        pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    certificates = [store.cert, *store.additional_certs]
    return b"".join([key, *(one.certificate.public_bytes(pem) for one in certificates)])


def _pkcs12_certificates(path: str, data: bytes, password: str | None) -> str:
    with needed_for(f"{TRUSTSTORE}={path} is PKCS12"):
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.serialization import pkcs12
    try:
        store = pkcs12.load_pkcs12(data, (password or "").encode() or None)
    except ValueError as error:
        raise store_error("ssl.truststore.password", f"does not open {path}: {error}") from error
    certificates = [store.cert] if store.cert is not None else []
    certificates += store.additional_certs
    if not certificates:
        raise store_error(TRUSTSTORE, f"{path} has no certificate")
    pem = serialization.Encoding.PEM
    return "".join(one.certificate.public_bytes(pem).decode("ascii") for one in certificates)
