"""What a cluster's server.properties asks of one broker is said with the way out."""

import pytest

from ottla.config.broker import broker_config
from ottla.config.one_broker import shortfalls


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("min.insync.replicas", "2", "every append with acks=all is refused"),
        ("controller.quorum.voters", "1@a:9093,2@b:9093", "speaks to no other"),
        ("sasl.enabled.mechanisms", "PLAIN", "neither encrypted nor authenticated"),
        ("remote.log.storage.system.enable", "true", "every record stays on the local disk"),
    ],
)
def test_what_one_broker_cannot_give_is_named(name: str, text: str, words: str) -> None:
    (found,) = shortfalls(broker_config({name: text}))
    assert str(found).startswith(f"{name}={text}: ")
    assert words in str(found)
    assert "; " in str(found)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("min.insync.replicas", "1"),
        ("controller.quorum.voters", "1@localhost:9093"),
        ("remote.log.storage.system.enable", "false"),
    ],
)
def test_what_one_broker_has_is_not_named(name: str, text: str) -> None:
    assert list(shortfalls(broker_config({name: text}))) == []


def test_a_plain_configuration_lacks_nothing() -> None:
    assert list(shortfalls(broker_config({"log.retention.hours": "1"}))) == []
