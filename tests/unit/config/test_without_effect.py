"""Kafka's settings that have no effect here."""

from ottla.config.broker import broker_config, broker_settings
from ottla.config.kafka_settings import kafka_settings
from ottla.config.without_effect import (
    DYNAMIC_WITHOUT_EFFECT,
    WITHOUT_EFFECT,
    is_without_effect,
)


def test_names_and_whole_families_are_known() -> None:
    assert is_without_effect("zookeeper.connect")
    assert is_without_effect("ssl.trustmanager.algorithm")
    assert is_without_effect("num.network.threads")
    assert not is_without_effect("num.network.thread")
    assert not is_without_effect("log.segment.bytes")


def test_what_may_be_changed_is_known() -> None:
    assert all(map(is_without_effect, DYNAMIC_WITHOUT_EFFECT))


def test_no_name_is_given_two_reasons() -> None:
    names = [name for names in WITHOUT_EFFECT.values() for name in names]
    assert len(names) == len(set(names))


def test_they_are_accepted_and_remembered() -> None:
    config = broker_config({"num.replica.fetchers": "3", "num.partitions": "2"})
    assert config.without_effect == ["num.replica.fetchers"]
    assert config.num_partitions == 2


def test_what_is_listed_without_effect_has_a_reason_and_is_no_setting_of_ours() -> None:
    listed = kafka_settings()
    assert all(map(is_without_effect, listed))
    assert not listed.keys() & broker_settings().keys()
    for row in listed.values():
        assert row.doc.startswith("No effect here: ")
        if row.default is not None and row.kind in ("int", "short", "long", "boolean", "double"):
            row.parse(str(row.default))
