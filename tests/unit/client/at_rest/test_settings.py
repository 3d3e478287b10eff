"""The settings of a directory's topics by its files are those that its broker describes."""

from pathlib import Path

import pytest

import ottla
from ottla.base.errors import UnknownNameError
from ottla.client.administration.config_values import ALL_BROKERS, ResourceKind
from ottla.client.at_rest.settings import TopicSettingsAtRest


def test_each_value_has_the_origin_and_default_that_the_broker_reports(tmp_path: Path) -> None:
    with ottla.open(tmp_path) as log, ottla.Admin(log) as admin:
        log.create_topic("orders", config={"retention.ms": 5, "cleanup.policy": "compact,delete"})
        log.create_topic("plain")
        admin.alter_configs(
            ResourceKind.BROKER,
            ALL_BROKERS,
            {"log.segment.bytes": "2000000", "compression.type": "lz4"},
        )
        admin.alter_configs(ResourceKind.BROKER, "1", {"log.retention.ms": "86400000"})
        names = ["orders", "plain"]
        found = TopicSettingsAtRest([str(tmp_path)]).describe_configs(ResourceKind.TOPIC, names)
        assert found == admin.describe_configs(ResourceKind.TOPIC, names)
        assert found["plain"]["segment.bytes"].value == "2000000"


def test_a_topic_that_is_not_there_is_refused_with_the_nearest(tmp_path: Path) -> None:
    with ottla.open(tmp_path) as log:
        log.create_topic("orders")
    with pytest.raises(UnknownNameError, match="did you mean orders"):
        TopicSettingsAtRest([str(tmp_path)]).describe_configs(ResourceKind.TOPIC, ["order"])
