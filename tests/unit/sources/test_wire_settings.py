"""Which client gets a job's settings, and how our own takes them."""

import pytest

from ottla.base.errors import UserError
from ottla.client.security import librdkafka_settings
from ottla.sources.options import parse_options
from ottla.sources.wire.wire_settings import (
    FETCH_SIZE,
    WireSettings,
    foreign_setting,
    parse_wire_settings,
)

BROKER = {"kafka.bootstrap.servers": "a:1, [::1]:2", "subscribe": "orders"}
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
TOKEN_URL = "sasl_oauthbearer_token_endpoint_url"
BOOTSTRAP = (("a", 1), ("::1", 2))


def client(**options: str) -> dict[str, str]:
    given = {f"kafka.{name.replace('_', '.')}": value for name, value in options.items()}
    return dict(parse_options({**BROKER, **given}).client)


def test_a_job_without_security_is_for_our_own_client() -> None:
    settings = client(security_protocol="plaintext", group_id="g", max_poll_records="9")
    assert foreign_setting(settings) is None
    assert parse_wire_settings(settings) == WireSettings(bootstrap=BOOTSTRAP)


def test_javas_settings_for_fetching_are_heeded() -> None:
    settings = client(
        client_id="me",
        request_timeout_ms="1500",
        fetch_max_bytes="3000",
        max_partition_fetch_bytes="2000",
        fetch_min_bytes="10",
        fetch_max_wait_ms="7",
    )
    assert foreign_setting(settings) is None
    found = parse_wire_settings(settings)
    assert found == WireSettings(
        bootstrap=BOOTSTRAP,
        client_id="me",
        request_timeout_s=1.5,
        fetch_size=3000,
        partition_fetch_size=2000,
        min_size=10,
        max_wait_ms=7,
    )
    assert found.answer_size == 2000
    assert WireSettings(bootstrap=BOOTSTRAP).answer_size == FETCH_SIZE


def test_logins_and_certificates_are_for_our_own_client() -> None:
    login = f'{SCRAM} required username="ana" password="a;\\"b" tokenauth="true";'
    settings = client(
        security_protocol="SASL_SSL", sasl_mechanism="SCRAM-SHA-512", sasl_jaas_config=login,
        ssl_truststore_location="ca.pem", ssl_truststore_type="PEM",
    )  # fmt: skip
    assert foreign_setting(settings) is None
    found = parse_wire_settings(settings).security
    assert (found.username, found.password, found.is_token) == ("ana", 'a;"b', True)
    assert (found.protocol, found.ca) == ("SASL_SSL", "ca.pem")
    assert 'a;"b' not in repr(found)


def test_librdkafka_gets_them_in_its_own_words() -> None:
    login = f'{SCRAM} required username="ana" password="x";'
    settings = client(
        sasl_jaas_config=login, ssl_truststore_location="ca.pem", ssl_truststore_type="pem",
        ssl_keystore_location="own.pem", client_rack="a",
    )  # fmt: skip
    assert librdkafka_settings(settings) == {
        "bootstrap.servers": BROKER["kafka.bootstrap.servers"],
        "client.rack": "a",
        "sasl.username": "ana",
        "sasl.password": "x",
        "ssl.ca.location": "ca.pem",
        "ssl.certificate.location": "own.pem",
        "ssl.key.location": "own.pem",
    }
    stores = {"ssl.keystore.location": "own.p12", "ssl.keystore.password": "x"}
    assert librdkafka_settings(stores) == stores
    with pytest.raises(UserError, match="librdkafka reads PEM"):
        librdkafka_settings({"ssl.truststore.password": "x"})
    for wrong in (login.replace(";", ' tokenauth="true";'), "Krb5LoginModule required;"):
        with pytest.raises(UserError, match="user and password"):
            librdkafka_settings({"sasl.jaas.config": wrong})


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({"security_protocol": "SASL_SSL", "sasl_mechanism": "GSSAPI"}, "sasl.mechanism"),
        ({"ssl_cipher_suites": "x"}, "ssl.cipher.suites"),
        ({TOKEN_URL: "https://issuer"}, TOKEN_URL.replace("_", ".")),
        ({"receive_buffer_bytes": "65536"}, "socket.receive.buffer.bytes"),
        ({"client_rack": "a"}, "client.rack"),
    ],
)
def test_what_our_own_client_has_no_place_for_is_for_librdkafka(
    given: dict[str, str], name: str
) -> None:
    assert foreign_setting(client(**given)) == name


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"fetch_max_bytes": "0"}, "option kafka.fetch.max.bytes takes a number above 0"),
        ({"fetch_max_bytes": "3000000000"}, "kafka.fetch.max.bytes takes at most 2147483647"),
        ({"request_timeout_ms": "1s"}, "takes a number above 0, not '1s'"),
        ({"bootstrap_servers": "localhost"}, "bootstrap.servers takes HOST:PORT, not 'localhost'"),
    ],
)
def test_a_value_that_cannot_be_is_refused(given: dict[str, str], words: str) -> None:
    with pytest.raises(UserError, match=words):
        parse_wire_settings(client(**given))
