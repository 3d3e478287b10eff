"""Settings of Kafka's that mean nothing here."""

from ottla.config.broker import broker_config
from ottla.config.without_effect import (
    DYNAMIC_WITHOUT_EFFECT,
    WITHOUT_EFFECT,
    is_without_effect,
)


def test_names_and_whole_families_are_known() -> None:
    assert is_without_effect("zookeeper.connect")
    assert is_without_effect("ssl.keystore.location")
    assert is_without_effect("num.network.threads")
    assert not is_without_effect("num.network.thread")
    assert not is_without_effect("log.segment.bytes")


def test_what_may_be_changed_is_known() -> None:
    assert all(map(is_without_effect, DYNAMIC_WITHOUT_EFFECT))


def test_no_name_is_given_two_reasons() -> None:
    names = [name for names in WITHOUT_EFFECT.values() for name in names]
    assert len(names) == len(set(names))


def test_they_are_accepted_and_remembered() -> None:
    config = broker_config({"process.roles": "broker", "num.partitions": "2"})
    assert config.without_effect == ["process.roles"]
    assert config.num_partitions == 2
