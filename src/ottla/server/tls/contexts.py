"""The TLS contexts of a listener: keys, certificates, versions, ciphers and rules. They follow
changes of settings and files. Open connections keep their context. Kafka's counterparts:
`SslFactory`, `DefaultSslEngineFactory`.
"""

import logging
import os
import ssl
from dataclasses import replace
from threading import Thread
from time import time

from ottla.base.errors import OttlaError, UserError
from ottla.base.principal import ANONYMOUS, USER, Principal
from ottla.base.values import dataclass
from ottla.config.broker import BrokerConfig
from ottla.config.listeners import Listener
from ottla.config.principal_mapping import PrincipalMapping
from ottla.config.setting import SettingError
from ottla.config.tls import TLS_SETTINGS, TlsConfig
from ottla.server.tls.ciphers import cipher_list, has_tls13_suite
from ottla.server.tls.stores import (
    KEYSTORE,
    TRUSTSTORE,
    load_keys,
    read_truststore,
    store_error,
    store_files,
)
from ottla.server.tls.subjects import subject_of

logger = logging.getLogger(__name__)

OP_ENABLE_KTLS = 1 << 3
"""OpenSSL's number; Python names it from 3.12 on. Without the kernel's support it does nothing."""

CLIENT_AUTH = "ssl.client.auth"
VERIFY = {
    "none": ssl.CERT_NONE,
    "requested": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}

Stamp = tuple[int, int, int]
"""A file's modification time, inode number and size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """One reading of settings and files."""

    context: ssl.SSLContext
    mapping: PrincipalMapping

    def principal_of(self, peer: ssl.SSLSocket) -> Principal:
        """The principal of a client's certificate; raises `CertificateError`."""
        certificate = peer.getpeercert()
        if not certificate:
            return ANONYMOUS
        # A resumed session has the certificate of its first handshake, which OpenSSL checked then.
        if time() > ssl.cert_time_to_seconds(str(certificate["notAfter"])):
            raise CertificateError("its certificate is not accepted: certificate has expired")
        name = self.mapping.user_of(subject_of(certificate))
        if name is None:
            raise CertificateError(
                "no rule of ssl.principal.mapping.rules matches the subject of its certificate"
            )
        return Principal(USER, name)


class CertificateError(OttlaError):
    """No user can be derived from a client's certificate."""


class ListenerTls:
    """The TLS of a listener, which is read again when settings or files have changed."""

    def __init__(self, listener: Listener, config: BrokerConfig) -> None:
        """Raises `SettingError` with the invalid setting."""
        self._listener = listener
        self._config = tls_config(listener, config)
        self._stamps = self._read_stamps()
        self._thread: Thread | None = None
        self.now = make_tls(listener, self._config)

    def renew(self, config: BrokerConfig) -> None:
        """Applies other settings; invalid ones leave the previous state."""
        before, self._config = self._config, tls_config(self._listener, config)
        if _values(self._config) != _values(before) or self._read_stamps() != self._stamps:
            self._read_again()

    def renew_if_changed(self) -> None:
        """Reads changed files again, in a thread, since opening a PKCS12 file may take long."""
        if self._thread is not None and self._thread.is_alive():
            return
        if self._read_stamps() != self._stamps:
            self._thread = Thread(target=self._read_again, name="ottla-certificates", daemon=True)
            self._thread.start()

    def _read_again(self) -> None:
        self._stamps = self._read_stamps()
        try:
            self.now = make_tls(self._listener, self._config)
        except UserError as error:
            logger.error("%s; its certificate stays the one before", error)
        else:
            logger.info("listener %s: its certificates were read again", self._listener.name)

    def _read_stamps(self) -> list[Stamp | None]:
        return [_stamp(path) for path in store_files(self._config)]


def tls_config(listener: Listener, config: BrokerConfig) -> TlsConfig:
    """The settings that apply to a listener.

    A SASL listener requests client certificates only if its own settings say so, as in Kafka
    (KIP-684).
    """
    own = config.of_listener(listener.name)
    if listener.has_login and CLIENT_AUTH not in config.given_to(listener.name):
        return replace(own, ssl_client_auth="none")
    return own


def make_tls(listener: Listener, config: TlsConfig) -> Tls:
    """Raises `SettingError` that names the listener and the setting."""
    try:
        return Tls(
            context=_context(config),
            mapping=PrincipalMapping.parse(config.ssl_principal_mapping_rules),
        )
    except SettingError as error:
        message = f"listener {listener.name}: {error}"
        raise SettingError(error.name, message, error.api_message) from error
    except UserError as error:
        raise SettingError(KEYSTORE, f"listener {listener.name}: {error}", str(error)) from error


def _context(config: TlsConfig) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    # A client that renegotiates costs a handshake each time.
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION | OP_ENABLE_KTLS
    context.num_tickets = 1
    _set_versions(context, config)
    load_keys(context, config)
    context.verify_mode = VERIFY[config.ssl_client_auth]
    if config.ssl_client_auth != "none":
        _load_trusted(context, config)
    return context


def _set_versions(context: ssl.SSLContext, config: TlsConfig) -> None:
    enabled = set(config.ssl_enabled_protocols)
    suites = config.ssl_cipher_suites
    if suites and not has_tls13_suite(suites):
        enabled.discard("TLSv1.3")
    older = cipher_list(suites)
    if suites and not older:
        enabled.discard("TLSv1.2")
    if not enabled:
        raise store_error("ssl.cipher.suites", "none of them goes with ssl.enabled.protocols")
    versions = ssl.TLSVersion
    context.minimum_version = versions.TLSv1_2 if "TLSv1.2" in enabled else versions.TLSv1_3
    context.maximum_version = versions.TLSv1_3 if "TLSv1.3" in enabled else versions.TLSv1_2
    if older:
        try:
            context.set_ciphers(older)
        except ssl.SSLError as error:
            raise store_error(
                "ssl.cipher.suites", f"OpenSSL knows none of {', '.join(suites)}"
            ) from error


def _load_trusted(context: ssl.SSLContext, config: TlsConfig) -> None:
    certificates = read_truststore(config)
    if certificates is None:
        raise store_error(
            TRUSTSTORE,
            f"ssl.client.auth={config.ssl_client_auth} needs the certificates that those of "
            "clients are signed by",
        )
    name = TRUSTSTORE if config.ssl_truststore_location else "ssl.truststore.certificates"
    try:
        context.load_verify_locations(cadata=certificates)
    except (ssl.SSLError, ValueError) as error:
        raise store_error(name, f"it is not usable ({error})") from error


def _values(config: TlsConfig) -> list[object]:
    return [getattr(config, row.attribute) for row in TLS_SETTINGS]


def _stamp(path: str) -> Stamp | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino, found.st_size
