"""Settings by a directory's files are those that its broker describes."""

from pathlib import Path

import pytest

import ottla
from ottla.base.errors import UnknownNameError, UserError
from ottla.base.resource_kinds import ResourceKind
from ottla.client.administration.config_values import ALL_BROKERS
from ottla.client.refusals import RefusedError
from tests.support.read_only import reading


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
        found = reading(tmp_path).describe_configs(ResourceKind.TOPIC, names)
        assert found == admin.describe_configs(ResourceKind.TOPIC, names)
        assert found["plain"]["segment.bytes"].value == "2000000"


def test_a_topic_that_is_not_there_is_refused_with_the_nearest(tmp_path: Path) -> None:
    with ottla.open(tmp_path) as log:
        log.create_topic("orders")
    with pytest.raises(UnknownNameError, match="did you mean orders"):
        reading(tmp_path).describe_configs(ResourceKind.TOPIC, ["order"])


def test_a_group_and_the_broker_have_what_the_broker_describes(tmp_path: Path) -> None:
    with ottla.open(tmp_path) as log, ottla.Admin(log) as admin:
        admin.alter_configs(ResourceKind.GROUP, "billing", {"consumer.session.timeout.ms": "50000"})
        admin.alter_configs(ResourceKind.BROKER, ALL_BROKERS, {"log.segment.bytes": "2000000"})
        admin.alter_configs(ResourceKind.BROKER, "1", {"log.retention.ms": "86400000"})
        at_rest = reading(tmp_path)
        for kind, name in (
            (ResourceKind.GROUP, "billing"),
            (ResourceKind.GROUP, "unknown"),
            (ResourceKind.BROKER, ALL_BROKERS),
        ):
            found = at_rest.describe_configs(kind, [name])
            assert found == admin.describe_configs(kind, [name])
        ours = at_rest.describe_configs(ResourceKind.BROKER, ["1"])["1"]
        theirs = admin.describe_configs(ResourceKind.BROKER, ["1"])["1"]
    # An embedded log is started with a setting of its own, which no directory keeps.
    given = {"group.initial.rebalance.delay.ms"}
    assert {name: ours[name] for name in ours if name not in given} == {
        name: theirs[name] for name in theirs if name not in given
    }


def test_another_broker_and_a_group_without_a_name_are_refused(tmp_path: Path) -> None:
    with ottla.open(tmp_path):
        at_rest = reading(tmp_path)
    with pytest.raises(UserError, match="no broker 5; there are 1"):
        at_rest.describe_configs(ResourceKind.BROKER, ["5"])
    with pytest.raises(RefusedError, match="Group name must not be empty"):
        at_rest.describe_configs(ResourceKind.GROUP, [""])
