"""How a cluster with security is reached: TLS (`ssl` of Python's own), SASL PLAIN and SCRAM.

Settings have librdkafka's names. What is not known here is refused, never passed over. Kafka's
counterparts: `SslChannelBuilder`, `SaslClientAuthenticator`.
"""

import secrets
import socket
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ProtocolError, UserError
from ottla.client.scram import HASHES, ScramClient
from ottla.codec.schema import Message
from ottla.protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from ottla.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS = ("PLAIN", *HASHES)


class AuthenticationError(UserError):
    """The broker does not take who we say we are; asking again does not help."""


class Asks(Protocol):
    """A connection, as far as a login needs it."""

    address: str

    def ask(self, request: Message, *, newest: int | None = None) -> object: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Security:
    """`PLAINTEXT` as it is. Certificates and keys are paths of PEM files."""

    protocol: str = "PLAINTEXT"
    ca: str | None = None
    """Whom to believe; `None`: whom this machine believes."""
    certificate: str | None = None
    key: str | None = None
    key_password: str | None = None
    checks_certificate: bool = True
    checks_host: bool = True
    mechanism: str = ""
    username: str = ""
    password: str = ""

    def wrapped(self, plain: socket.socket, host: str) -> socket.socket:
        """The connection, in TLS if there is to be any; raises `OSError`."""
        if not self.protocol.endswith("SSL"):
            return plain
        return self._context().wrap_socket(plain, server_hostname=host)

    def log_in(self, connection: Asks) -> None:
        """Raises `AuthenticationError` when the broker refuses, and `UserError`."""
        if not self.protocol.startswith("SASL"):
            return
        answer = connection.ask(SaslHandshakeRequest(mechanism=self.mechanism))
        assert isinstance(answer, SaslHandshakeResponse)
        if answer.error_code != ErrorCode.NONE:
            known = ", ".join(answer.mechanisms) or "none"
            raise AuthenticationError(
                f"{connection.address}: the broker does not take {self.mechanism}; set "
                f"sasl.mechanism to one of: {known}"
            )
        if self.mechanism == "PLAIN":
            self._say(connection, f"\0{self.username}\0{self.password}".encode())
            return
        scram = ScramClient(self.mechanism, self.username, self.password, secrets.token_hex(16))
        try:
            challenge = self._say(connection, scram.first())
            scram.check(self._say(connection, scram.prove(challenge)))
        except ProtocolError as error:
            raise AuthenticationError(f"{connection.address}: {error}") from error

    def _say(self, connection: Asks, token: bytes) -> bytes:
        answer = connection.ask(SaslAuthenticateRequest(auth_bytes=token))
        assert isinstance(answer, SaslAuthenticateResponse)
        if answer.error_code != ErrorCode.NONE:
            reason = answer.error_message or ErrorCode(answer.error_code).name
            raise AuthenticationError(
                f"{connection.address}: {self.username} is refused ({reason}); check "
                f"sasl.username and sasl.password"
            )
        return bytes(answer.auth_bytes)

    def _context(self) -> ssl.SSLContext:
        try:
            context = ssl.create_default_context(cafile=self.ca)
            if self.certificate is not None:
                password = self.key_password
                context.load_cert_chain(self.certificate, self.key, password)
        except (OSError, ValueError) as error:
            named = self.certificate or self.ca
            raise UserError(
                f"{named}: {error}; ssl.ca.location, ssl.certificate.location and "
                f"ssl.key.location name PEM files"
            ) from error
        context.check_hostname = self.checks_host and self.checks_certificate
        if not self.checks_certificate:
            context.verify_mode = ssl.CERT_NONE
        return context


PLAINTEXT = Security()


def parse_security(settings: Mapping[str, str]) -> Security:
    """Of settings by librdkafka's names; raises `UserError` for one that is unknown or wrong."""
    fields: dict[str, object] = {}
    for name, text in settings.items():
        if name not in _KNOWN:
            raise UserError(f"{name}: that is not known here; known are {', '.join(_KNOWN)}")
        field, read = _KNOWN[name]
        fields[field] = read(name, text)
    found = Security(**fields)  # type: ignore[arg-type]
    if found.protocol.startswith("SASL") and not (found.mechanism and found.username):
        raise UserError(
            f"security.protocol={found.protocol} needs sasl.mechanism ({', '.join(MECHANISMS)}), "
            f"sasl.username and sasl.password"
        )
    return found


def _text(_: str, text: str) -> str:
    return text


def _one_of(*known: str) -> Callable[[str, str], str]:
    def read(name: str, text: str) -> str:
        if text.upper() not in known:
            raise UserError(f"{name}={text}: it is one of {', '.join(known)}")
        return text.upper()

    return read


def _is_true(name: str, text: str) -> bool:
    return _one_of("TRUE", "FALSE")(name, text) == "TRUE"


def _is_https(name: str, text: str) -> bool:
    return _one_of("HTTPS", "NONE")(name, text) == "HTTPS"


_KNOWN: dict[str, tuple[str, Callable[[str, str], object]]] = {
    "security.protocol": ("protocol", _one_of(*PROTOCOLS)),
    "ssl.ca.location": ("ca", _text),
    "ssl.certificate.location": ("certificate", _text),
    "ssl.key.location": ("key", _text),
    "ssl.key.password": ("key_password", _text),
    "enable.ssl.certificate.verification": ("checks_certificate", _is_true),
    "ssl.endpoint.identification.algorithm": ("checks_host", _is_https),
    "sasl.mechanism": ("mechanism", _one_of(*MECHANISMS)),
    "sasl.mechanisms": ("mechanism", _one_of(*MECHANISMS)),
    "sasl.username": ("username", _text),
    "sasl.password": ("password", _text),
}
"""Settings -> fields of `Security`, and what reads them."""
