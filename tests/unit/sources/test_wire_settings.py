"""How the client that reads from brokers takes a job's settings."""

import pytest

from ottla.base.errors import UserError
from ottla.sources.options import parse_options
from ottla.sources.wire.wire_settings import (
    FETCH_SIZE,
    WireSettings,
    parse_wire_settings,
)

BROKER = {"kafka.bootstrap.servers": "a:1, [::1]:2", "subscribe": "orders"}
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
TOKEN_URL = "sasl_oauthbearer_token_endpoint_url"
BOOTSTRAP = (("a", 1), ("::1", 2))


def client(**options: str) -> dict[str, str]:
    given = {f"kafka.{name.replace('_', '.')}": value for name, value in options.items()}
    return dict(parse_options({**BROKER, **given}).client)


def test_a_job_without_security_needs_no_setting() -> None:
    settings = client(security_protocol="plaintext", group_id="g", max_poll_records="9")
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


def test_logins_and_certificates_are_heeded() -> None:
    login = f'{SCRAM} required username="ana" password="a;\\"b" tokenauth="true";'
    settings = client(
        security_protocol="SASL_SSL", sasl_mechanism="SCRAM-SHA-512", sasl_jaas_config=login,
        ssl_truststore_location="ca.pem", ssl_truststore_type="PEM",
    )  # fmt: skip
    found = parse_wire_settings(settings).security
    assert (found.username, found.password, found.is_token) == ("ana", 'a;"b', True)
    assert (found.protocol, found.ca) == ("SASL_SSL", "ca.pem")
    assert 'a;"b' not in repr(found)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (
            {"security_protocol": "SASL_SSL", "sasl_mechanism": "GSSAPI"},
            "sasl.mechanism=GSSAPI: it is one of PLAIN, SCRAM-SHA-256",
        ),
        ({TOKEN_URL: "https://issuer"}, "a token can only be read from a file, as file:///PATH"),
        ({"ssl_cipher_suites": "x"}, "there is no option kafka.ssl.cipher.suites"),
        (
            {"fetch_max_wait": "5"},
            r"there is no option kafka.fetch.max.wait; did you mean kafka.fetch.max.wait.ms",
        ),
        ({"plugin_library_paths": "x"}, "there is no option kafka.plugin.library.paths; there are"),
    ],
)
def test_a_setting_that_the_client_does_not_have_is_refused_by_name(
    given: dict[str, str], words: str
) -> None:
    with pytest.raises(UserError, match=words):
        parse_wire_settings(client(**given))


@pytest.mark.parametrize("name", ["client_rack", "receive_buffer_bytes", "metadata_max_age_ms"])
def test_a_setting_that_changes_no_record_is_named_in_a_warning(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert parse_wire_settings(client(**{name: "1"})) == WireSettings(bootstrap=BOOTSTRAP)
    assert f"option kafka.{name.replace('_', '.')} has no effect here" in caplog.text


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
