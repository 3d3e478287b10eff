"""Secures a connection and logs in: TLS (Python's `ssl`), SASL PLAIN and SCRAM.

Imported only for clusters that need it, since importing TLS and hashes takes longer than running a
command. Kafka's counterparts: `SslChannelBuilder`, `SaslClientAuthenticator`.
"""

import secrets
import socket
import ssl
from typing import Protocol

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ProtocolError, UserError
from ottla.base.extras import needed_for
from ottla.base.tls import in_tls
from ottla.client.connecting.security import (
    NO_LOGIN_HINT,
    OAUTHBEARER,
    AuthenticationError,
    Security,
)
from ottla.codec.schema import Message
from ottla.config.broker import broker_config
from ottla.config.setting import SettingError
from ottla.config.tls import TlsConfig
from ottla.protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from ottla.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from ottla.server.tls.stores import load_keys, read_truststore


class Asks(Protocol):
    """The part of a connection that a login needs."""

    address: str

    def ask(self, request: Message, *, newest: int | None = None) -> object: ...


def wrapped(security: Security, plain: socket.socket, host: str) -> socket.socket:
    """The connection in TLS; raises `OSError`."""
    return in_tls(tls_context(security), plain, server_hostname=host)


def log_in(security: Security, connection: Asks) -> int:
    """Returns for how many milliseconds the login is valid, 0 for the connection's lifetime
    (KIP-368).

    Raises `AuthenticationError` if the broker refuses, and `UserError`.
    """
    answer = connection.ask(SaslHandshakeRequest(mechanism=security.mechanism))
    assert isinstance(answer, SaslHandshakeResponse)
    if answer.error_code != ErrorCode.NONE:
        known = ", ".join(answer.mechanisms)
        raise AuthenticationError(
            f"{connection.address}: the broker does not support {security.mechanism}; set "
            f"sasl.mechanism to one of: {known}"
            if known
            else f"{connection.address}: the listener takes no login{NO_LOGIN_HINT}"
        )
    if security.mechanism == "PLAIN":
        text = f"\0{security.username}\0{security.password}".encode()
        return _say(security, connection, text).session_lifetime_ms
    if security.mechanism == OAUTHBEARER:
        return _bring_token(security, connection)
    return _prove_password(security, connection)


def _prove_password(security: Security, connection: Asks) -> int:
    with needed_for(f"sasl.mechanism={security.mechanism}"):
        from ottla.client.connecting.scram import ScramClient
    scram = ScramClient(
        security.mechanism,
        security.username,
        security.password,
        secrets.token_hex(16),
        is_token=security.is_token,
    )
    try:
        challenge = _say(security, connection, scram.first())
        last = _say(security, connection, scram.prove(bytes(challenge.auth_bytes)))
        scram.check(bytes(last.auth_bytes))
    except ProtocolError as error:
        raise AuthenticationError(f"{connection.address}: {error}") from error
    return last.session_lifetime_ms


def _bring_token(security: Security, connection: Asks) -> int:
    try:
        with open(security.token_file, encoding="utf-8") as file:
            token = file.read().strip()
    except OSError as error:
        raise UserError(f"{security.token_file}: {error.strerror}; it must hold a token") from error
    answer = _say(security, connection, f"n,,\x01auth=Bearer {token}\x01\x01".encode())
    if answer.auth_bytes:
        # The error follows after an acknowledgement (RFC 7628, section 3.2.2).
        answer = _say(security, connection, b"\x01")
    return answer.session_lifetime_ms


def _say(security: Security, connection: Asks, token: bytes) -> SaslAuthenticateResponse:
    answer = connection.ask(SaslAuthenticateRequest(auth_bytes=token))
    assert isinstance(answer, SaslAuthenticateResponse)
    if answer.error_code != ErrorCode.NONE:
        reason = answer.error_message or ErrorCode(answer.error_code).name
        raise AuthenticationError(
            f"{connection.address}: {security.username or 'the token'} is refused ({reason}); "
            f"check sasl.username and sasl.password"
        )
    return answer


def tls_context(security: Security) -> ssl.SSLContext:
    """Raises `UserError` for unusable keys and certificates."""
    config = _stores_of(security)
    try:
        context = ssl.create_default_context(cadata=read_truststore(config))
        if security.key is not None:
            assert security.certificate is not None, "parse_security has checked it"
            password = security.key_password or ""
            context.load_cert_chain(security.certificate, security.key, password)
        elif security.certificate is not None or security.certificate_pem is not None:
            load_keys(context, config)
    except SettingError as error:
        # librdkafka's settings of both names are read as stores, too.
        raise UserError(f"{error}; check ssl.ca.location and ssl.certificate.location") from error
    except (OSError, ValueError) as error:
        named = security.key or security.ca or "ssl.truststore.certificates"
        raise UserError(
            f"{named}: {error}; ssl.ca.location, ssl.certificate.location and "
            f"ssl.key.location name PEM files"
        ) from error
    context.check_hostname = security.checks_host and security.checks_certificate
    if not security.checks_certificate:
        context.verify_mode = ssl.CERT_NONE
    return context


def _stores_of(security: Security) -> TlsConfig:
    """The stores, by settings with the same names as the broker's and those of Java's clients."""
    has_own_file = security.key is not None
    given = {
        "ssl.truststore.location": security.ca,
        "ssl.truststore.password": security.ca_password,
        "ssl.truststore.certificates": security.ca_pem,
        "ssl.truststore.type": "PEM" if security.ca_pem else None,
        "ssl.keystore.location": None if has_own_file else security.certificate,
        "ssl.keystore.password": security.certificate_password,
        "ssl.keystore.certificate.chain": security.certificate_pem,
        "ssl.keystore.key": security.key_pem,
        "ssl.keystore.type": "PEM" if security.key_pem else None,
        "ssl.key.password": security.key_password,
    }
    return broker_config({name: text for name, text in given.items() if text is not None})
