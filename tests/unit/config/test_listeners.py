"""Listeners: which are for clients, where they are, and where clients are sent."""

import pytest

from ottla.base.addresses import Address
from ottla.config.broker import broker_config
from ottla.config.listeners import (
    Listener,
    client_listeners,
    controller_listeners,
    inter_broker_listener,
)
from ottla.config.setting import SettingError


def listeners(**values: str) -> list[Listener]:
    return client_listeners(
        broker_config({name.replace("_", "."): text for name, text in values.items()})
    )


def test_without_settings_the_loopback_is_listened_on() -> None:
    assert listeners() == [Listener(name="PLAINTEXT", address=("127.0.0.1", 9092))]


def test_the_listeners_of_a_combined_node_of_kafka_are_understood() -> None:
    assert listeners(
        listeners="PLAINTEXT://:9092,CONTROLLER://:9093",
        advertised_listeners="PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
        controller_listener_names="CONTROLLER",
        listener_security_protocol_map="CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    ) == [Listener(name="PLAINTEXT", address=("0.0.0.0", 9092), advertised=("localhost", 9092))]


def test_each_listener_has_its_own_advertisement() -> None:
    found = listeners(
        listeners="INSIDE://0.0.0.0:29092,outside://0.0.0.0:9092",
        advertised_listeners="OUTSIDE://kafka.example:9092,INSIDE://broker:29092",
        listener_security_protocol_map="INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT",
    )
    assert [(one.name, one.address, one.advertised) for one in found] == [
        ("INSIDE", ("0.0.0.0", 29092), ("broker", 29092)),
        ("OUTSIDE", ("0.0.0.0", 9092), ("kafka.example", 9092)),
    ]


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("PLAINTEXT://broker.example:9092", ("broker.example", 9092)),
        ("broker.example:9092", ("broker.example", 9092)),
        ("PLAINTEXT://[::1]:9092", ("::1", 9092)),
    ],
)
def test_a_lone_advertisement_is_that_of_the_lone_listener(text: str, address: Address) -> None:
    assert listeners(advertised_listeners=text)[0].advertised == address


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"listeners": "PLAINTEXT://host"}, "must look like"),
        ({"listeners": "PLAINTEXT://host:port"}, "must look like"),
        ({"listeners": "PLAINTEXT://host:65536"}, "must look like"),
        ({"listeners": "PLAINTEXT://a:b:9092"}, "must look like"),
        ({"listeners": ""}, "no listener is for clients"),
        ({"listeners": "CONTROLLER://:1", "controller_listener_names": "CONTROLLER"}, "no listen"),
        ({"listeners": "INSIDE://:9093"}, "does not know INSIDE"),
        ({"listeners": "PLAINTEXT://:1,PLAINTEXT://:2"}, "named twice"),
        ({"advertised_listeners": ":1"}, "must look like"),
        ({"advertised_listeners": "host"}, "must look like"),
        ({"advertised_listeners": "PLAINTEXT://0.0.0.0:9092"}, "clients cannot connect to 0.0.0.0"),
        ({"advertised_listeners": "OTHER://a:9092"}, "there is no listener OTHER; name one of"),
        ({"advertised_listeners": "PLAINTEXT://a:1,SSL://a:2"}, "there is no listener SSL"),
        ({"advertised_listeners": "PLAINTEXT://a:1,PLAINTEXT://a:2"}, "named twice"),
        ({"listeners": "PLAINTEXT://:9092,SSL://:9092"}, "port 9092 is taken"),
        ({"listeners": "PLAINTEXT://127.0.0.1:1,SSL://127.0.0.2:1"}, "port 1 is taken"),
        ({"listeners": "PLAINTEXT://127.0.0.1:1,SSL://localhost:1"}, "port 1 is taken"),
        (
            {"listeners": "PLAINTEXT://127.0.0.1:1,SSL://[::1]:1,SASL_SSL://:1"},
            "port 1 is taken",
        ),
        (
            {
                "listeners": "PLAINTEXT://:1,CONTROLLER://:1",
                "controller_listener_names": "CONTROLLER",
            },
            "port 1 is taken",
        ),
        ({"listener_security_protocol_map": "A"}, "must look like NAME:PLAINTEXT"),
        ({"listener_security_protocol_map": "A:TLS"}, "a protocol is one of PLAINTEXT, SSL"),
        ({"inter_broker_listener_name": "INSIDE"}, "must be one of listeners: PLAINTEXT"),
        ({"control_plane_listener_name": "CONTROL"}, "must be one of listeners: PLAINTEXT"),
        (
            {
                "inter_broker_listener_name": "PLAINTEXT",
                "security_inter_broker_protocol": "PLAINTEXT",
            },
            "only one of",
        ),
        (
            {
                "inter_broker_listener_name": "PLAINTEXT",
                "control_plane_listener_name": "plaintext",
            },
            "must be another listener",
        ),
    ],
)
def test_listeners_that_make_no_sense_are_refused(values: dict[str, str], told: str) -> None:
    with pytest.raises(SettingError, match=told):
        listeners(**values)


def test_two_listeners_may_have_a_port_of_the_systems_choice_or_that_of_both_versions_of_ip() -> (
    None
):
    assert len(listeners(listeners="PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0")) == 2
    assert len(listeners(listeners="PLAINTEXT://127.0.0.1:9092,SSL://[::1]:9092")) == 2


TWO = {
    "listeners": "OUTSIDE://0.0.0.0:9092,INSIDE://0.0.0.0:29092",
    "listener_security_protocol_map": "INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT",
}


@pytest.mark.parametrize(
    ("values", "name"),
    [({}, "OUTSIDE"), ({"inter_broker_listener_name": "inside"}, "INSIDE")],
)
def test_the_listener_of_brokers_is_the_one_that_is_named(
    values: dict[str, str], name: str
) -> None:
    config = broker_config({key.replace("_", "."): text for key, text in (TWO | values).items()})
    assert inter_broker_listener(config, client_listeners(config)).name == name


def test_a_listener_has_settings_of_its_own_over_those_of_all() -> None:
    config = broker_config(
        {
            "ssl.client.auth": "required",
            "listener.name.outside.ssl.client.auth": "none",
            "listener.name.outside.max.connections": "5",
        }
    )
    assert config.of_listener("OUTSIDE").ssl_client_auth == "none"
    assert config.of_listener("OUTSIDE").max_connections == 5
    assert config.of_listener("INSIDE") == config


def test_a_setting_of_one_listener_is_checked_as_that_of_all() -> None:
    with pytest.raises(SettingError, match=r"listener.name.outside.ssl.client.auth=maybe: one of"):
        broker_config({"listener.name.outside.ssl.client.auth": "maybe"})


def test_a_controllers_listener_needs_no_row_in_the_default_map_as_brokers_describe_it() -> None:
    default = "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT"
    values = {
        "process.roles": "broker,controller",
        "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
        "controller.listener.names": "CONTROLLER",
    }
    for described in ({}, {"listener.security.protocol.map": default}):
        config = broker_config(values | described)
        (listener,) = controller_listeners(config)
        assert (listener.name, listener.protocol) == ("CONTROLLER", "PLAINTEXT")
        assert [one.name for one in client_listeners(config)] == ["PLAINTEXT"]
