"""Settings of a node of a KRaft cluster: its roles, voters and listeners."""

import pytest

from ottla.config.broker import broker_config
from ottla.config.listeners import client_listeners, controller_listeners, controller_protocol
from ottla.config.setting import SettingError

BOTH = {
    "process.roles": "broker,controller",
    "listeners": "PLAINTEXT://a:9092,CONTROLLER://a:9093",
    "controller.listener.names": "CONTROLLER",
}


def test_a_node_of_both_roles_has_listeners_for_clients_and_for_controllers() -> None:
    config = broker_config(BOTH)
    assert [one.name for one in client_listeners(config)] == ["PLAINTEXT"]
    (found,) = controller_listeners(config)
    assert (found.name, found.address, found.protocol) == ("CONTROLLER", ("a", 9093), "PLAINTEXT")


def test_a_node_that_is_only_a_controller_has_no_listener_for_clients() -> None:
    config = broker_config({**BOTH, "process.roles": "controller", "listeners": "CONTROLLER://:1"})
    assert client_listeners(config) == []
    assert [one.address for one in controller_listeners(config)] == [("0.0.0.0", 1)]


def test_a_node_that_is_only_a_broker_knows_the_protocol_of_controllers() -> None:
    config = broker_config(
        {
            "process.roles": "broker",
            "listeners": "PLAINTEXT://:9092",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:SSL",
        }
    )
    assert controller_listeners(config) == []
    assert controller_protocol(config).protocol == "SSL"


def test_each_kind_of_listener_is_advertised_to_its_own() -> None:
    advertised = {"advertised.listeners": "PLAINTEXT://b:1,CONTROLLER://c:2"}
    config = broker_config({**BOTH, **advertised})
    assert [one.advertised for one in client_listeners(config)] == [("b", 1)]
    assert [one.advertised for one in controller_listeners(config)] == [("c", 2)]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"controller.listener.names": ""}, "must name the listeners of controllers"),
        ({"controller.listener.names": "CONTROLLER,SSL"}, "listeners has no SSL"),
        ({"process.roles": "broker"}, "does not listen on CONTROLLER"),
    ],
)
def test_listeners_that_do_not_fit_the_roles_are_refused(
    changed: dict[str, str], said: str
) -> None:
    with pytest.raises(SettingError, match=said):
        controller_listeners(broker_config({**BOTH, **changed}))


def test_a_controller_refuses_a_listener_for_clients() -> None:
    with pytest.raises(SettingError, match="no listener for clients; PLAINTEXT"):
        client_listeners(broker_config({**BOTH, "process.roles": "controller"}))


def test_voters_are_named_by_id_and_address() -> None:
    config = broker_config({"controller.quorum.voters": "1@a:9093,2@[::1]:9094"})
    assert config.voters == [(1, ("a", 9093)), (2, ("::1", 9094))]


@pytest.mark.parametrize("text", ["a:9093", "1@a", "1@a:70000", "1@a:0", "1@a:1,1@b:2", "x@a:1"])
def test_voters_that_cannot_be_read_are_refused(text: str) -> None:
    with pytest.raises(SettingError, match=rf"controller\.quorum\.voters={text}: "):
        broker_config({**BOTH, "controller.quorum.voters": text})


def test_controllers_to_ask_first_are_addresses() -> None:
    config = broker_config({"controller.quorum.bootstrap.servers": "a:1, b:2"})
    assert config.bootstrap_controllers == [("a", 1), ("b", 2)]


def test_voters_have_addresses_of_their_own() -> None:
    with pytest.raises(SettingError, match="two nodes have one address; each has its own"):
        _ = broker_config({**BOTH, "controller.quorum.voters": "1@a:1,2@a:1"}).voters


def test_a_role_is_named_once() -> None:
    with pytest.raises(SettingError, match=r"process\.roles=broker,broker: a role is named twice"):
        broker_config({**BOTH, "process.roles": "broker,broker"})


@pytest.mark.parametrize(
    ("given", "has_others"),
    [
        ({}, False),
        ({"process.roles": "controller"}, True),
        ({"controller.quorum.voters": "1@anywhere:1"}, False),
        ({"controller.quorum.voters": "2@a:2"}, True),
        ({"controller.quorum.voters": "2@a:2", "node.id": "2"}, False),
        ({"controller.quorum.bootstrap.servers": "localhost:9093"}, False),
        ({"controller.quorum.bootstrap.servers": "localhost:9094"}, True),
        ({"controller.quorum.bootstrap.servers": "elsewhere:9093"}, True),
        ({"controller.quorum.bootstrap.servers": "localhost:9093,localhost:9094"}, True),
        (
            {
                "controller.quorum.bootstrap.servers": "c:1",
                "advertised.listeners": "PLAINTEXT://b:1,CONTROLLER://c:1",
            },
            False,
        ),
    ],
)
def test_one_named_node_is_another_unless_it_is_known_to_be_this_one(
    given: dict[str, str], has_others: bool
) -> None:
    listeners = {"listeners": "PLAINTEXT://:9092,CONTROLLER://:9093"}
    assert broker_config({**BOTH, **listeners, **given}).has_other_nodes is has_others
