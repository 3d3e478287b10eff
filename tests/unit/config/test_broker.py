"""A broker's settings: Kafka's names, and the defaults that they give to topics."""

import pytest

from ottla.config.any_setting import unknown_text
from ottla.config.broker import (
    HOUR_MS,
    MINUTE_MS,
    BrokerConfig,
    broker_config,
    check_known,
    topic_settings_by_broker_name,
)
from ottla.config.setting import SettingError, settings_of
from ottla.config.topic import TopicConfig


def test_without_values_everything_is_kafkas_default() -> None:
    config = broker_config({})
    assert config == BrokerConfig()
    assert config.topic_defaults == TopicConfig()


def test_every_default_passes_its_own_bounds() -> None:
    for row in settings_of(BrokerConfig).values():
        if row.default is not None:
            assert row.parse(row.format(row.default)) == row.default


def test_a_brokers_name_sets_the_default_of_its_topics() -> None:
    config = broker_config({"log.segment.bytes": "1048576", "message.max.bytes": "2000"})
    assert config.topic_defaults.segment_bytes == 1_048_576
    assert config.topic_defaults.max_message_bytes == 2000
    assert config.value_of("log.segment.bytes") == 1_048_576


def test_a_brokers_own_setting_is_its_own() -> None:
    config = broker_config({"num.partitions": "3", "auto.create.topics.enable": "false"})
    assert (config.num_partitions, config.auto_create_topics_enable) == (3, False)
    assert config.value_of("num.partitions") == 3


@pytest.mark.parametrize(
    ("values", "expected_ms"),
    [
        ({"log.retention.hours": "2"}, 2 * HOUR_MS),
        ({"log.retention.hours": "2", "log.retention.minutes": "3"}, 3 * MINUTE_MS),
        ({"log.retention.minutes": "3", "log.retention.ms": "4"}, 4),
        ({"log.retention.hours": "-1"}, -1),
        ({"log.retention.ms": "-1"}, -1),
    ],
)
def test_the_finest_unit_of_retention_counts(values: dict[str, str], expected_ms: int) -> None:
    assert broker_config(values).topic_defaults.retention_ms == expected_ms


def test_hours_of_rolling_give_way_to_milliseconds() -> None:
    assert broker_config({"log.roll.hours": "1"}).topic_defaults.segment_ms == HOUR_MS
    values = {"log.roll.hours": "1", "log.roll.ms": "5"}
    assert broker_config(values).topic_defaults.segment_ms == 5


def test_a_refusal_speaks_of_the_name_that_was_given() -> None:
    with pytest.raises(SettingError, match=r"log\.segment\.bytes=1: at least 14"):
        broker_config({"log.segment.bytes": "1"})


@pytest.mark.parametrize(
    "name",
    [
        "super.users",
        "my.plugin.key",
        "ssl.keystore.location",
        "listener.name.a.plain.sasl.jaas.config",
    ],
)
def test_no_setting_has_the_character_nul_and_its_value_is_not_shown(name: str) -> None:
    with pytest.raises(SettingError, match=f"{name}: contains the character NUL") as refused:
        broker_config({name: "a secr\0et"})
    assert "secr" not in f"{refused.value}{refused.value.api_message}"


def test_a_topics_name_is_no_brokers_name() -> None:
    assert broker_config({"segment.bytes": "1000"}).unknown == ["segment.bytes"]


def test_a_broker_accepts_what_a_plugin_may_read_and_a_program_is_told_what_it_meant() -> None:
    given = {"my.plugin.url": "http://x", "num.partition": "1", "rsm.config.a": "2", "node.id": "3"}
    config = broker_config(given)
    assert config.unknown == ["my.plugin.url", "num.partition"]
    assert config.without_effect == ["rsm.config.a"]
    assert unknown_text(config.unknown) == (
        "my.plugin.url, num.partition (did you mean num.partitions?)"
    )
    assert unknown_text(["log.retention.hour"]) == (
        "log.retention.hour (did you mean log.retention.hours?)"
    )
    check_known({"node.id": "3", "rsm.config.a": "2"})
    with pytest.raises(SettingError, match=r"there is no such setting; did you mean num\.part"):
        check_known(["node.id", "num.partition"])


def test_no_name_is_both_a_brokers_own_and_a_default_of_topics() -> None:
    assert not settings_of(BrokerConfig).keys() & topic_settings_by_broker_name().keys()
