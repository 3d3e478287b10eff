"""What a broker shows to the others of its cluster, by the settings of their common listener."""

from itertools import cycle
from ssl import SSLError

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import UnreachableError, UserError
from ottla.cli.serve import broker_connections
from ottla.cli.serve.broker_connections import BrokerConnections, broker_security, refusal_text
from ottla.client.connecting.login import log_in
from ottla.client.connecting.security import Security
from ottla.client.connecting.socket_connection import hint_of_tls
from ottla.codec.schema import Message
from ottla.config.broker import broker_config
from ottla.config.listeners import (
    client_listeners,
    controller_listeners,
    inter_broker_listener,
)
from ottla.metadata.brokers import Endpoint
from ottla.protocol.messages.sasl_handshake import SaslHandshakeResponse

MECHANISM = "sasl.mechanism.inter.broker.protocol"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
BROKERS = {
    "listeners": "BROKERS://:9093,CLIENTS://:9092",
    "listener.security.protocol.map": "BROKERS:SASL_SSL,CLIENTS:SSL",
    "inter.broker.listener.name": "BROKERS",
    "sasl.enabled.mechanisms": "PLAIN",
    MECHANISM: "PLAIN",
    "listener.name.brokers.plain.sasl.jaas.config": (
        f'{PLAIN} required username="b1" password="pot" user_b1="pot";'
    ),
    "ssl.keystore.location": "/all.pem",
    "listener.name.brokers.ssl.keystore.location": "/b1.pem",
    "ssl.truststore.location": "/ca.pem",
}


def security(**settings: str) -> Security:
    more = {name.replace("_", "."): text for name, text in settings.items()}
    config = broker_config({**BROKERS, **more})
    return broker_security(config, inter_broker_listener(config, client_listeners(config)))


def test_a_broker_shows_what_the_listener_of_brokers_has() -> None:
    assert security() == Security(
        protocol="SASL_SSL",
        ca="/ca.pem",
        certificate="/b1.pem",
        mechanism="PLAIN",
        username="b1",
        password="pot",
    )
    assert not security(ssl_endpoint_identification_algorithm="").checks_host
    assert not security(
        listener_name_brokers_ssl_endpoint_identification_algorithm="none"
    ).checks_host
    token = security(
        sasl_enabled_mechanisms="OAUTHBEARER",
        sasl_mechanism_inter_broker_protocol="OAUTHBEARER",
        sasl_oauthbearer_token_endpoint_url="file:///run/token",
    )
    assert (token.username, token.token_file) == ("", "/run/token")


@pytest.mark.parametrize("mechanism", ["GSSAPI", "SCRAM-SHA-512"])
def test_over_a_listener_of_controllers_their_own_setting_is_named(mechanism: str) -> None:
    refused = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.listener.names": "BROKERS",
        "inter.broker.listener.name": "CLIENTS",
        MECHANISM: mechanism,
    }
    config = broker_config({**BROKERS, **refused})
    (listener,) = controller_listeners(config)
    with pytest.raises(UserError, match=f"^sasl.mechanism.controller.protocol={mechanism}: "):
        broker_security(config, listener)


class PlainConnection:
    """To a listener without logins."""

    address = "host:9093"

    def ask(self, request: Message, *, newest: int | None = None) -> object:
        return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)


def test_a_node_is_told_its_own_setting_where_listeners_do_not_agree() -> None:
    login = Security(protocol="SASL_PLAINTEXT", mechanism="PLAIN", username="b", password="s")
    with pytest.raises(UserError) as refused:
        log_in(login, PlainConnection())
    said = "host:9093: the listener takes no login"
    assert str(refused.value) == f"{said}; set security.protocol to PLAINTEXT or SSL"
    config = broker_config(BROKERS)
    listener = inter_broker_listener(config, client_listeners(config))
    assert refusal_text(refused.value, listener) == (
        f"{said}; BROKERS is SASL_SSL here, and must have the same protocol in "
        "listener.security.protocol.map of all nodes"
    )


@pytest.mark.parametrize(
    ("reason", "hint"),
    [
        (
            "[SSL: TLSV1_ALERT_UNKNOWN_CA] tlsv1 alert unknown ca (_ssl.c:2580)",
            "the certificate that ssl.keystore.location names is not accepted there",
        ),
        (
            "[SSL: SSLV3_ALERT_CERTIFICATE_EXPIRED] sslv3 alert certificate expired (_ssl.c:2580)",
            "the certificate that ssl.keystore.location names is not accepted there",
        ),
        (
            "[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: certificate has expired",
            "the broker's certificate is to be renewed",
        ),
        (
            "[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: unable to get",
            "ssl.truststore.location names the file of the authority that the broker's certificate "
            "is of",
        ),
    ],
)
def test_a_certificate_that_one_side_does_not_accept_is_told_with_the_setting_of_a_node(
    reason: str, hint: str
) -> None:
    config = broker_config(BROKERS)
    listener = inter_broker_listener(config, client_listeners(config))
    error = UnreachableError(f"h:1: {reason}{hint_of_tls(reason)}")
    assert refusal_text(error, listener) == f"h:1: {reason}; {hint}"


def test_a_refusal_that_tls_tells_in_two_ways_is_logged_once_in_each(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    texts = cycle(["alert unknown ca", "EOF occurred"])

    def refuse(*_: object, **__: object) -> None:
        raise UnreachableError(next(texts)) from SSLError()

    monkeypatch.setattr(broker_connections, "SocketConnection", refuse)
    config = broker_config(BROKERS)
    connect = BrokerConnections(
        lambda: config, inter_broker_listener(config, client_listeners(config)), 1.0
    )
    place = Endpoint(listener="BROKERS", host="h", port=1, security_protocol="SASL_SSL")
    for _ in range(6):
        with pytest.raises(UnreachableError):
            connect(place, "b1")
    assert [one.getMessage().rpartition(": ")[2] for one in caplog.records] == [
        "alert unknown ca",
        "EOF occurred",
    ]


def test_without_a_login_a_broker_shows_its_certificate_alone() -> None:
    found = security(listener_security_protocol_map="BROKERS:SSL,CLIENTS:SSL")
    assert found == Security(protocol="SSL", ca="/ca.pem", certificate="/b1.pem")
    plain = security(listener_security_protocol_map="BROKERS:PLAINTEXT,CLIENTS:SSL")
    assert plain.protocol == "PLAINTEXT"


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (
            {"sasl_mechanism_inter_broker_protocol": "GSSAPI"},
            f"{MECHANISM}=GSSAPI: brokers log in to each other over BROKERS, a listener of "
            "SASL_SSL; set one of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER",
        ),
        (
            {"sasl_mechanism_inter_broker_protocol": "SCRAM-SHA-512"},
            f"{MECHANISM}=SCRAM-SHA-512: must be one of sasl.enabled.mechanisms (PLAIN)",
        ),
        (
            {"listener_name_brokers_plain_sasl_jaas_config": f'{PLAIN} required user_a="secret";'},
            'listener.name.brokers.plain.sasl.jaas.config: must have username="..."',
        ),
        (
            {
                "sasl_enabled_mechanisms": "OAUTHBEARER",
                "sasl_mechanism_inter_broker_protocol": "OAUTHBEARER",
                "sasl_oauthbearer_token_endpoint_url": "https://issuer/token",
            },
            "sasl.oauthbearer.token.endpoint.url=https://issuer/token: "
            "a token can only be read from a file",
        ),
    ],
)
def test_settings_by_which_no_broker_could_log_in_are_refused(
    settings: dict[str, str], said: str
) -> None:
    with pytest.raises(UserError) as caught:
        security(**settings)
    assert str(caught.value).startswith(said)
    assert "secret" not in str(caught.value)
