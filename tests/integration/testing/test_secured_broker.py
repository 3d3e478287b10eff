"""`LocalBroker` with security: certificates and users are made, and clients of all kinds get in."""

from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer

import ottla
from ottla.client.connecting.security import AuthenticationError
from ottla.testing import LocalBroker
from ottla.testing.pytest_plugin import SETTINGS
from tests.support.patience import PATIENCE_S

pytest.importorskip("cryptography")
pytestmark = pytest.mark.slow


@pytest.mark.parametrize("security", ["SSL", "SASL_PLAINTEXT", "SASL_SSL"])
def test_what_one_client_sends_another_reads(tmp_path: Path, security: str) -> None:
    with LocalBroker(tmp_path / "broker", SETTINGS, security=security) as broker:
        broker.create_topic("orders")
        address = {"bootstrap.servers": broker.address} | broker.client_settings()
        producer = Producer(address)
        producer.produce("orders", b"tea")
        assert producer.flush(PATIENCE_S) == 0
        broker.assert_produced("orders", value="tea")
        with ottla.SimpleConsumer(broker.address, settings=broker.client_settings()) as consumer:
            assert [one.value for one in consumer.fetch("orders")] == [b"tea"]
        broker.restart()
        other = Consumer(address | {"group.id": "billing", "auto.offset.reset": "earliest"})
        other.subscribe(["orders"])
        record = other.poll(PATIENCE_S)
        assert record is not None
        assert record.value() == b"tea"
        other.close()


def test_a_wrong_password_keeps_a_client_out_and_each_mechanism_lets_users_in(
    tmp_path: Path,
) -> None:
    users = {"ana": "pot and kettle", "bob": "another"}
    with LocalBroker(tmp_path / "broker", security="SASL_PLAINTEXT", users=users) as broker:
        settings = broker.client_settings("bob")
        for mechanism in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"):
            with ottla.Admin(broker.address, settings | {"sasl.mechanism": mechanism}) as admin:
                assert admin.list_topics() == []
        with (
            pytest.raises(AuthenticationError),
            ottla.Admin(broker.address, settings | {"sasl.password": "guessed"}) as admin,
        ):
            admin.list_topics()


@pytest.mark.usefixtures("without_pauses")
def test_certificates_are_asked_for_where_the_settings_say_so(tmp_path: Path) -> None:
    settings = {"ssl.client.auth": "required"}
    with LocalBroker(tmp_path / "broker", settings, security="SSL") as broker:
        own = broker.client_settings()
        with ottla.Admin(broker.address, own) as admin:
            assert admin.list_topics() == []
        without = {name: own[name] for name in ("security.protocol", "ssl.ca.location")}
        with pytest.raises(ottla.UserError), ottla.Admin(broker.address, without) as admin:
            admin.list_topics()


def test_an_unknown_protocol_is_named_with_those_that_there_are(tmp_path: Path) -> None:
    with pytest.raises(ottla.UserError, match="TLS: a protocol must be one of PLAINTEXT, SSL"):
        LocalBroker(tmp_path / "broker", security="TLS")


class TestFixtures:
    @pytest.fixture
    def ottla_security(self) -> str:
        return "SASL_SSL"

    def test_a_class_of_tests_has_a_secured_broker(self, ottla_broker: LocalBroker) -> None:
        ottla_broker.create_topic("orders")
        settings = ottla_broker.client_settings()
        with ottla.Producer(ottla_broker.address, settings=settings) as producer:
            producer.send("orders", b"tea").result(PATIENCE_S)
        ottla_broker.assert_produced("orders", value="tea")
