"""Our own clients log in at our own broker: by each mechanism, by tokens, and again in time."""

import json
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

import ottla
from ottla.base.errors import UserError
from ottla.base.extras import install_command
from ottla.base.scram import bytes_text
from ottla.cli.main import cli
from ottla.client.administration.admin import Admin
from ottla.client.connecting.cluster import ClientSettings
from ottla.client.connecting.security import AuthenticationError, parse_security
from ottla.client.connecting.target import open_target
from ottla.metadata.deciding.topics import NewTopic
from tests.support.logins import PASSWORD, USER, login_broker
from tests.support.serving import serving

pytestmark = pytest.mark.slow

MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    (tmp_path / "d").mkdir()
    broker = login_broker(
        tmp_path / "d", delegation_token_secret_key="sealed", connections_max_reauth_ms="1500"
    )
    broker.admin.create_topic(NewTopic(name="orders", partition_count=1))
    with serving(broker) as server:
        yield f"127.0.0.1:{server.address[1]}"


def settings(mechanism: str, user: str = USER, password: str = PASSWORD) -> dict[str, str]:
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": user,
        "sasl.password": password,
    }


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_records_go_and_come(address: str, mechanism: str) -> None:
    own = settings(mechanism)
    with ottla.Producer(address, settings=own) as producer:
        producer.send("orders", b"tea").result()
    own["auto.offset.reset"] = "earliest"
    with ottla.Consumer(address, "g", settings=own) as consumer:
        consumer.subscribe("orders")
        record = consumer.poll(20)
    assert record is not None
    assert record.value == b"tea"


def test_without_scramp_a_login_by_scram_says_how_to_install_it(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "scramp", None)
    monkeypatch.delitem(sys.modules, "ottla.client.connecting.scram", raising=False)
    missing = re.escape(
        f"sasl.mechanism=SCRAM-SHA-256: scramp is not installed: {install_command('security')}"
    )
    with (
        pytest.raises(UserError, match=missing),
        ottla.Admin(address, settings("SCRAM-SHA-256")) as admin,
    ):
        admin.list_topics()
    with ottla.Admin(address, settings("PLAIN")) as admin:
        assert admin.list_topics() == ["orders"]


def test_a_client_logs_in_again_before_its_login_has_ended(address: str) -> None:
    client = ClientSettings(security=parse_security(settings("SCRAM-SHA-256")))
    with open_target(address, client) as cluster:
        admin = Admin(cluster)
        until_s = time.monotonic() + 3.5
        while time.monotonic() < until_s:
            assert list(admin.describe_user_scram_credentials()) == [USER, "bob"]
            time.sleep(0.05)


def test_a_token_stands_for_its_owner(address: str) -> None:
    client = ClientSettings(security=parse_security(settings("SCRAM-SHA-512")))
    with open_target(address, client) as cluster:
        token = Admin(cluster).create_delegation_token()
    jaas = (
        f'{MODULE} required username="{token.token_id}" password="{bytes_text(token.secret)}" '
        'tokenauth="true";'
    )
    own = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.jaas.config": jaas,
    }
    with ottla.Admin(address, own) as admin:
        assert admin.list_topics() == ["orders"]
    with (
        pytest.raises(AuthenticationError),
        ottla.Admin(
            address, {**own, "sasl.jaas.config": jaas.replace(token.token_id, "another")}
        ) as admin,
    ):
        admin.list_topics()


def test_commands_take_secrets_from_files_and_the_environment(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANAS_PASSWORD", PASSWORD)
    (tmp_path / "password").write_text(PASSWORD + "\n")
    config = tmp_path / "client.properties"
    lines = {**settings("SCRAM-SHA-256"), "sasl.password": f"${{file:{tmp_path}/password}}"}
    config.write_text("".join(f"{name}={text}\n" for name, text in lines.items()))
    for given in (
        ["--command-config", str(config)],
        ["--command-config", str(config), "-X", "sasl.password=${env:ANAS_PASSWORD}"],
    ):
        done = CliRunner().invoke(cli, ["topics", "list", address, "--json", *given])
        assert done.exit_code == 0, done.output
        assert json.loads(done.output.splitlines()[0])["topic"] == "orders"
    missing = ["-X", "sasl.password=${env:NOBODYS}"]
    done = CliRunner().invoke(cli, ["topics", "list", address, *missing])
    assert done.exit_code == 2
    assert "the environment variable is not set" in done.output
