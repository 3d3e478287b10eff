"""Connections to the other brokers of a cluster: with TLS and a login, if their listener requires
them.

This broker presents what its own listener has: keystore, truststore, and the user name and password
of the listener's `sasl.jaas.config`. Kafka's counterpart: `ChannelBuilders.clientChannelBuilder`.
"""

import logging
from collections.abc import Callable
from dataclasses import replace

from ottla.base.errors import UnreachableError, UserError
from ottla.client.connecting.security import (
    FILE,
    MECHANISMS,
    NO_LOGIN_HINT,
    OAUTHBEARER,
    TOKEN_URL,
    AuthenticationError,
    Security,
)
from ottla.client.connecting.socket_connection import (
    CERTIFICATE_HINT,
    NO_TLS_HINT,
    SocketConnection,
)
from ottla.config.broker import BrokerConfig
from ottla.config.listeners import Listener
from ottla.config.security import JAAS, LISTENER_PREFIX, jaas_of
from ottla.config.setting import SettingError
from ottla.metadata.brokers import Endpoint

logger = logging.getLogger(__name__)

MECHANISM = "sasl.mechanism.inter.broker.protocol"
CONTROLLER_MECHANISM = "sasl.mechanism.controller.protocol"


class BrokerConnections:
    """Connects to brokers; changed settings and files apply to the next connection.

    Each way in which a broker refuses the login or the certificate is logged once, until it does
    not: TLS tells of one and the same refusal by an alert, or by hanging up before that is read.
    """

    def __init__(
        self,
        config: Callable[[], BrokerConfig],
        listener: Listener,
        timeout_s: float,
        *,
        setup_timeout_s: float | None = None,
        keeps_memory: bool = True,
    ) -> None:
        """A connection is given up after `setup_timeout_s`, and a response after `timeout_s`. With
        `keeps_memory` what is large in a response is valid until the next one. Raises
        `SettingError`.
        """
        self._config = config
        self._listener = listener
        self._timeout_s = timeout_s
        self._setup_timeout_s = timeout_s if setup_timeout_s is None else setup_timeout_s
        self._keeps_memory = keeps_memory
        self._refusals: dict[Endpoint, set[str]] = {}
        broker_security(config(), listener)

    def __call__(self, endpoint: Endpoint, client_id: str) -> SocketConnection:
        """Raises `UserError`."""
        try:
            connection = SocketConnection(
                endpoint.host,
                endpoint.port,
                timeout_s=self._setup_timeout_s,
                client_id=client_id,
                security=broker_security(self._config(), self._listener),
                keeps_memory=self._keeps_memory,
            )
        except (AuthenticationError, UnreachableError) as error:
            if isinstance(error, AuthenticationError) or _is_of_tls(error):
                self._complain(endpoint, refusal_text(error, self._listener))
            raise
        connection.wait_up_to(self._timeout_s)
        self._refusals.pop(endpoint, None)
        return connection

    def _complain(self, endpoint: Endpoint, text: str) -> None:
        told = self._refusals.setdefault(endpoint, set())
        if text not in told:
            told.add(text)
            logger.warning(
                "no connection to the broker at %s of this cluster: %s",
                endpoint.connection_text,
                text,
            )


def refusal_text(error: UserError, listener: Listener) -> str:
    """With the setting of a node in place of a client's."""
    text = str(error).replace(CERTIFICATE_HINT, "; ssl.keystore.location names that of this node")
    text = text.replace("ssl.certificate.location", "ssl.keystore.location")
    text = text.replace("ssl.ca.location", "ssl.truststore.location")
    for hint in (NO_TLS_HINT, NO_LOGIN_HINT):
        if text.endswith(hint):
            return (
                f"{text.removesuffix(hint)}; {listener.name} is {listener.protocol} here, and must "
                "have the same protocol in listener.security.protocol.map of all nodes"
            )
    return text


def _is_of_tls(error: UnreachableError) -> bool:
    from ssl import SSLError  # imported only if a listener has TLS

    return isinstance(error.__cause__, SSLError)


def broker_security(config: BrokerConfig, listener: Listener) -> Security:
    """Returns what this broker presents to brokers whose listener has the same name; raises
    `SettingError`.
    """
    own = config.of_listener(listener.name)
    security = Security(
        protocol=listener.protocol,
        ca=own.ssl_truststore_location,
        ca_password=own.ssl_truststore_password,
        ca_pem=own.ssl_truststore_certificates,
        certificate=own.ssl_keystore_location,
        certificate_password=own.ssl_keystore_password,
        certificate_pem=own.ssl_keystore_certificate_chain,
        key_pem=own.ssl_keystore_key,
        key_password=own.ssl_key_password,
        checks_host=own.ssl_endpoint_identification_algorithm.lower() == "https",
    )
    return _with_login(security, own, listener) if listener.has_login else security


def _with_login(security: Security, config: BrokerConfig, listener: Listener) -> Security:
    mechanism = config.sasl_mechanism_inter_broker_protocol
    is_of_controllers = listener.name in config.controller_listener_names
    setting = CONTROLLER_MECHANISM if is_of_controllers else MECHANISM
    if mechanism not in MECHANISMS:
        raise _error(
            setting,
            f"{setting}={mechanism}: brokers log in to each other over {listener.name}, a "
            f"listener of {listener.protocol}; set one of {', '.join(MECHANISMS)}",
        )
    if mechanism not in config.sasl_enabled_mechanisms:
        raise _error(
            setting,
            f"{setting}={mechanism}: must be one of sasl.enabled.mechanisms "
            f"({', '.join(config.sasl_enabled_mechanisms)}), since other brokers log in with it "
            f"too",
        )
    if mechanism == OAUTHBEARER:
        url = config.sasl_oauthbearer_token_endpoint_url or ""
        if not url.startswith(FILE):
            raise _error(
                TOKEN_URL,
                f"{TOKEN_URL}={url}: a token can only be read from a file, as file:///PATH",
            )
        return replace(security, mechanism=mechanism, token_file=url.removeprefix(FILE))
    jaas = jaas_of(config.given, listener.name, mechanism)
    options = {} if jaas is None else jaas.options
    if not options.get("username"):
        name = f"{LISTENER_PREFIX}{listener.name.lower()}.{mechanism.lower()}.{JAAS}"
        raise _error(
            name,
            f'{name}: must have username="..." password="...", by which this broker logs in to '
            "others",
        )
    return replace(
        security,
        mechanism=mechanism,
        username=options["username"],
        password=options.get("password", ""),
    )


def _error(name: str, message: str) -> SettingError:
    return SettingError(name, message, message)
