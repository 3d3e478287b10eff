"""A broker that cannot connect to another of its cluster says why, once."""

import logging
import socket
from contextlib import closing
from pathlib import Path
from queue import SimpleQueue
from typing import NoReturn

import pytest

from ottla.base.errors import UserError
from ottla.cli.serve.broker_connections import BrokerConnections
from ottla.client.connecting.security import AuthenticationError
from ottla.cluster.controller_channel import ControllerChannels
from ottla.cluster.orders import OrderWriter
from ottla.config.broker import BrokerConfig, broker_config
from ottla.config.inter_broker_version import LATEST
from ottla.config.listeners import client_listeners
from ottla.controller.context import LiveBroker
from ottla.controller.requests import Outgoing, UpdateMetadata
from ottla.metadata.brokers import BrokerRegistration, Endpoint
from ottla.testing import LocalBroker
from tests.support.patience import PATIENCE_S

certificates = pytest.importorskip("ottla.testing.certificates")

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


def endpoint_of(other: LocalBroker, protocol: str) -> Endpoint:
    host, _, port = other.address.rpartition(":")
    return Endpoint(listener=protocol, host=host, port=int(port), security_protocol=protocol)


def config_of(protocol: str, settings: dict[str, str]) -> BrokerConfig:
    return broker_config({"listeners": f"{protocol}://:9092", **settings})


def test_a_login_that_another_broker_refuses_is_said_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    password = "pan"

    def config() -> BrokerConfig:
        settings = {
            "sasl.enabled.mechanisms": "PLAIN",
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
            "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
                f'{PLAIN} required username="b1" password="{password}";'
            ),
        }
        return config_of("SASL_PLAINTEXT", settings)

    (listener,) = client_listeners(config())
    connect = BrokerConnections(config, listener, 10.0)
    with LocalBroker(tmp_path / "d", security="SASL_PLAINTEXT", users={"b1": "pot"}) as other:
        endpoint = endpoint_of(other, "SASL_PLAINTEXT")
        with caplog.at_level(logging.WARNING):
            for _ in range(2):
                with pytest.raises(AuthenticationError):
                    connect(endpoint, "1")
        (record,) = caplog.records
        assert "no connection to the broker at SASL_PLAINTEXT://" in record.getMessage()
        assert password not in record.getMessage()
        password = "pot"
        connect(endpoint, "1").close()


def test_a_certificate_that_is_not_trusted_is_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stranger = certificates.Authority().write(tmp_path / "stranger.pem")
    config = config_of("SSL", {"ssl.truststore.location": str(stranger)})
    (listener,) = client_listeners(config)
    connect = BrokerConnections(lambda: config, listener, 10.0)
    with (
        LocalBroker(tmp_path / "d", security="SSL") as other,
        caplog.at_level(logging.WARNING),
        pytest.raises(UserError),
    ):
        connect(endpoint_of(other, "SSL"), "1")
    assert "certificate verify failed" in caplog.text


def test_a_connection_may_be_given_up_before_a_response_would_be() -> None:
    config = config_of("PLAINTEXT", {})
    (listener,) = client_listeners(config)
    connect = BrokerConnections(lambda: config, listener, 3600.0, setup_timeout_s=0.02)
    with closing(socket.create_server(("127.0.0.1", 0))) as still:
        host, port = still.getsockname()
        endpoint = Endpoint(
            listener="PLAINTEXT", host=host, port=port, security_protocol="PLAINTEXT"
        )
        with pytest.raises(UserError, match="timed out"):
            connect(endpoint, "1")


def test_the_controller_reaches_brokers_over_the_listener_for_it() -> None:
    reached: SimpleQueue[Endpoint] = SimpleQueue()

    def connect(endpoint: Endpoint, client_id: str) -> NoReturn:
        reached.put(endpoint)
        raise UserError("nobody is there")

    endpoints = tuple(
        Endpoint(listener=name, host="h", port=port, security_protocol="SSL")
        for name, port in (("BROKERS", 9093), ("CONTROL", 9094))
    )
    writer = OrderWriter(controller_id=1, version=LATEST, listener="BROKERS")
    channels = ControllerChannels(writer, connect, "CONTROL", lambda _: None)
    live = LiveBroker(BrokerRegistration(endpoints=endpoints), epoch=5)
    order = UpdateMetadata(brokers={}, partitions={}, topic_ids={})
    channels.send([Outgoing(broker=2, broker_epoch=5, controller_epoch=1, order=order)], {2: live})
    assert reached.get(timeout=PATIENCE_S).port == 9094
    channels.stop()
