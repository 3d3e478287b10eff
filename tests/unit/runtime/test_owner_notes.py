"""Which listener commands on a data directory connect to."""

import pytest

from ottla.config.broker import broker_config
from ottla.config.listeners import client_listeners
from ottla.runtime.owner_notes import addresses_for_commands

THREE = {
    "listeners": "OUTSIDE://a:1,PLAIN://b:2,INSIDE://c:3",
    "listener.security.protocol.map": "OUTSIDE:SSL,PLAIN:PLAINTEXT,INSIDE:PLAINTEXT",
}


@pytest.mark.parametrize(
    ("values", "hosts"),
    [
        ({}, ["b", "c"]),
        ({"inter.broker.listener.name": "INSIDE"}, ["c", "b"]),
        ({"inter.broker.listener.name": "OUTSIDE"}, ["a"]),
        ({"security.inter.broker.protocol": "SSL"}, ["a"]),
    ],
)
def test_commands_connect_to_the_brokers_listener_and_to_those_that_speak_alike(
    values: dict[str, str], hosts: list[str]
) -> None:
    config = broker_config(THREE | values)
    listeners = client_listeners(config)
    found = addresses_for_commands(config, listeners, [one.address for one in listeners])
    assert [host for host, _ in found] == hosts
