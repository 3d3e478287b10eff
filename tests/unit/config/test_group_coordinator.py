"""Settings of groups: Kafka's defaults, and the one that differs where nobody else can come."""

import pytest

from ottla.config.broker import broker_config
from ottla.config.group_coordinator import GroupCoordinatorConfig, with_local_defaults
from ottla.config.setting import SettingError


def test_the_defaults_are_kafkas() -> None:
    config = GroupCoordinatorConfig()
    assert config.group_initial_rebalance_delay_ms == 3000
    assert config.group_min_session_timeout_ms == 6000
    assert config.group_max_session_timeout_ms == 1_800_000
    assert config.group_max_size == 2**31 - 1
    assert config.group_consumer_session_timeout_ms == 45_000
    assert config.group_consumer_heartbeat_interval_ms == 5000
    assert config.group_consumer_assignors == ("uniform", "range")
    assert config.offset_metadata_max_bytes == 4096
    assert config.offsets_retention_minutes == 7 * 24 * 60
    assert config.offsets_topic_num_partitions == 50


def test_a_broker_gets_groups_under_kafkas_names() -> None:
    config = broker_config({"group.max.size": "7", "offsets.topic.num.partitions": "3"})
    assert (config.group_max_size, config.offsets_topic_num_partitions) == (7, 3)
    assert config.value_of("group.max.size") == 7


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "localhost", "::1"])
def test_a_first_rebalance_does_not_wait_where_only_this_machine_can_come(host: str) -> None:
    config = broker_config(with_local_defaults({}, host))
    assert config.group_initial_rebalance_delay_ms == 0


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "example.org"])
def test_a_first_rebalance_waits_as_kafkas_does_elsewhere(host: str) -> None:
    config = broker_config(with_local_defaults({}, host))
    assert config.group_initial_rebalance_delay_ms == 3000


def test_what_is_given_counts_everywhere() -> None:
    given = {"group.initial.rebalance.delay.ms": "500"}
    assert with_local_defaults(given) == given


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("group.consumer.session.timeout.ms", "44999"),
        ("group.consumer.session.timeout.ms", "60001"),
        ("group.consumer.heartbeat.interval.ms", "4999"),
        ("group.consumer.heartbeat.interval.ms", "15001"),
        ("group.consumer.assignors", ""),
        ("group.consumer.assignors", "sticky"),
        ("group.coordinator.rebalance.protocols", "consumer"),
        ("group.coordinator.rebalance.protocols", "classic,share"),
    ],
)
def test_settings_of_the_new_protocol_are_held_to_each_other(name: str, text: str) -> None:
    with pytest.raises(SettingError, match=name):
        broker_config({name: text})


def test_a_heartbeat_comes_sooner_than_a_session_ends() -> None:
    given = {
        "group.consumer.min.session.timeout.ms": "5000",
        "group.consumer.session.timeout.ms": "5000",
    }
    with pytest.raises(SettingError, match="less than"):
        broker_config(given)
