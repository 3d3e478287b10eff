"""Settings of groups: Kafka's defaults, and the one that differs where nobody else can come."""

import pytest

from ottla.config.broker import broker_config
from ottla.config.group import GroupConfig, with_local_defaults


def test_the_defaults_are_kafkas() -> None:
    config = GroupConfig()
    assert config.group_initial_rebalance_delay_ms == 3000
    assert config.group_min_session_timeout_ms == 6000
    assert config.group_max_session_timeout_ms == 1_800_000
    assert config.group_max_size == 2**31 - 1
    assert config.offset_metadata_max_bytes == 4096
    assert config.offsets_retention_minutes == 7 * 24 * 60
    assert config.offsets_topic_num_partitions == 50


def test_a_broker_is_told_of_groups_under_kafkas_names() -> None:
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
