"""Stored settings that are not valid, or not any more: said at the start, ignored, and mended."""

import logging
from collections.abc import Mapping

import pytest

from ottla.base.files import FileSystem
from ottla.base.resource_kinds import ResourceKind
from ottla.base.timestamps import Timestamps
from ottla.broker.broker import Broker
from ottla.broker.configs.config_changes import Alteration, ConfigChange, ConfigOperation
from ottla.broker.configs.settings import ConfigSource
from ottla.config.broker import broker_config, broker_settings
from ottla.config.setting import SettingError
from ottla.config.usable import name_among, usable
from ottla.metadata.deciding.topics import NewTopic
from ottla.testing import FakeFileSystem
from tests.support.brokers import NOW_MS, batch, disk, open_broker
from tests.support.metadata import settings, write_records

DAY_MS = 86_400_000


def store_settings(
    file_system: FileSystem,
    own: Mapping[str, str],
    of_all: Mapping[str, str] | None = None,
    groups: Mapping[str, Mapping[str, str]] | None = None,
) -> None:
    """Writes settings as if they had once been accepted."""
    if not file_system.list("/d"):
        open_broker(file_system).close()
    records = [
        *settings(ResourceKind.BROKER, "", of_all or {}),
        *settings(ResourceKind.BROKER, "1", own),
    ]
    for name, values in (groups or {}).items():
        records += settings(ResourceKind.GROUP, name, values)
    write_records(file_system, *records)


def errors(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [one.getMessage() for one in caplog.records if one.levelno == logging.ERROR]


def unset(*names: str) -> Alteration:
    delete = ConfigOperation.DELETE
    return Alteration(changes=[ConfigChange(name=one, operation=delete) for one in names])


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("log.retention.ms", "0"),
        ("log.retention.ms", "x"),
        ("log.cleaner.threads", "0"),
        ("log.cleaner.dedupe.buffer.size", "1"),
        ("log.cleanup.policy", "shred"),
        ("cordoned.log.dirs", "/elsewhere"),
        ("num.io.threads", "-1"),
        ("max.connections.per.ip.overrides", "nobody"),
        ("log.cleaner.max.compaction.lag.ms", "-1"),
    ],
)
@pytest.mark.parametrize("is_own", [True, False], ids=["own", "all"])
def test_a_broker_starts_without_an_invalid_value_and_says_how_to_mend_it(
    name: str, text: str, is_own: bool, caplog: pytest.LogCaptureFixture
) -> None:
    file_system = disk("/d")
    stored = {name: text, "log.segment.bytes": "1000"}
    store_settings(file_system, *((stored,) if is_own else ({}, stored)))
    broker = open_broker(file_system)
    (line,) = errors(caplog)
    option = "--broker ID" if is_own else "--brokers"
    assert name in line
    assert f"`ottla configs set TARGET {option} {name}=VALUE`" in line
    assert f"`ottla configs unset TARGET {option} {name}`" in line
    if name in broker_settings():
        default = broker_config({"log.dirs": "/d"}).value_of(name)
        assert broker.settings.config.value_of(name) == default
    assert broker.settings.config.topic_defaults.segment_bytes == 1000
    # What is ignored hinders no other change, and stays until it is mended.
    scope = ConfigSource.BROKER if is_own else ConfigSource.ALL_BROKERS
    change = ConfigChange(name="log.segment.bytes", value="2000")
    broker.admin.alter_broker(scope, Alteration(changes=[change]))
    assert broker.settings.config.topic_defaults.segment_bytes == 2000
    broker.admin.alter_broker(scope, unset(name))
    broker.close()
    caplog.clear()
    open_broker(file_system)
    assert errors(caplog) == []


def test_the_value_of_all_brokers_applies_where_that_of_one_is_invalid(
    caplog: pytest.LogCaptureFixture,
) -> None:
    file_system = disk("/d")
    store_settings(file_system, {"log.retention.ms": "0"}, {"log.retention.ms": "77"})
    assert open_broker(file_system).settings.config.topic_defaults.retention_ms == 77
    assert len(errors(caplog)) == 1


def test_an_invalid_value_of_a_group_is_ignored(caplog: pytest.LogCaptureFixture) -> None:
    file_system = disk("/d")
    values = {"consumer.session.timeout.ms": "50000", "consumer.heartbeat.interval.ms": "x"}
    store_settings(file_system, {}, groups={"g": values})
    of_group = open_broker(file_system).settings.groups.of("g")
    assert of_group.consumer_session_timeout_ms == 50_000
    assert of_group.consumer_heartbeat_interval_ms == 5000
    (line,) = errors(caplog)
    assert "group g" in line
    assert "`ottla configs set TARGET --group g consumer.heartbeat.interval.ms=VALUE`" in line


def with_old_records(file_system: FakeFileSystem, **overrides: str) -> None:
    """A topic of two old segments, and with settings that were once accepted."""
    broker = open_broker(file_system, log_index_size_max_bytes="240")
    broker.admin.create_topic(
        NewTopic(name="t", partition_count=1, overrides={"segment.bytes": "200"})
    )
    for _ in range(5):
        old = batch(b"v" * 80, timestamp_ms=NOW_MS - 30 * DAY_MS)
        broker.appends.append(broker.topics.partition("t", 0), old, now_ms=NOW_MS)
        broker.appends.write_out()
    broker.close()
    stored = {name.replace("_", "."): text for name, text in overrides.items()}
    write_records(file_system, *settings(ResourceKind.TOPIC, "t", stored))


def start_after_retention(broker: Broker) -> int:
    """The log's start offset when retention has come by."""
    for at_ms in (0, 400_000, 800_000):
        broker.scheduler.run_due(Timestamps(now_ms=NOW_MS + at_ms, monotonic_ms=at_ms))
    return broker.topics.partition("t", 0).log.log_start_offset


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("retention.ms", "-5"),
        ("retention.ms", "for ever"),
        ("retention.bytes", "x"),
        ("cleanup.policy", "keep"),
        ("min.compaction.lag.ms", "-1"),
    ],
)
def test_nothing_of_a_topic_is_deleted_while_what_decides_it_is_invalid(
    name: str, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    file_system = disk("/d")
    with_old_records(file_system, **{name.replace(".", "_"): text})
    broker = open_broker(file_system, log_index_size_max_bytes="240")
    (line,) = errors(caplog)
    assert line.startswith("topic t: a stored setting is not valid and is ignored: ")
    assert f"{name}={text}" in line
    assert "nothing of the topic is deleted or compacted" in line
    assert f"`ottla configs set TARGET t {name}=VALUE`" in line
    assert start_after_retention(broker) == 0
    assert not broker.log_jobs.access.may_compact("t")
    assert broker.topics.get("t").overrides[name] == text
    other = ConfigChange(name="segment.bytes", value="300")
    broker.admin.alter_topic("t", Alteration(changes=[other]))
    assert broker.topics.get("t").overrides[name] == text
    assert not broker.log_jobs.access.may_compact("t")
    broker.admin.alter_topic("t", unset(name))
    assert broker.log_jobs.access.may_compact("t")
    assert start_after_retention_of(broker) > 0


def start_after_retention_of(broker: Broker) -> int:
    """As `start_after_retention`, some time later."""
    for at_ms in (1_200_000, 1_600_000):
        broker.scheduler.run_due(Timestamps(now_ms=NOW_MS + at_ms, monotonic_ms=at_ms))
    return broker.topics.partition("t", 0).log.log_start_offset


def test_settings_that_do_not_decide_it_hold_nothing(caplog: pytest.LogCaptureFixture) -> None:
    file_system = disk("/d")
    with_old_records(file_system, flush_ms="-1", a_name_that_was_one="1")
    broker = open_broker(file_system, log_index_size_max_bytes="240")
    assert len(errors(caplog)) == 2
    assert start_after_retention(broker) > 0


def test_topics_without_their_own_value_are_held_while_the_brokers_is_invalid(
    caplog: pytest.LogCaptureFixture,
) -> None:
    for overrides, is_held in ({}, True), ({"retention_ms": "1000"}, False):
        file_system = disk("/d")
        with_old_records(file_system, **overrides)
        store_settings(file_system, {"log.retention.ms": "0"})
        caplog.clear()
        broker = open_broker(file_system, log_index_size_max_bytes="240")
        (line,) = errors(caplog)
        assert "nothing is deleted or compacted in topics without their own value" in line
        assert (start_after_retention(broker) == 0) is is_held
        own = Alteration(changes=[ConfigChange(name="log.retention.ms", value=str(DAY_MS))])
        broker.admin.alter_broker(ConfigSource.BROKER, own)
        assert start_after_retention_of(broker) > 0
        assert broker.log_jobs.access.may_retain("t", broker.topics.partition("t", 0).log)


def test_of_values_that_contradict_each_other_one_is_ignored() -> None:
    def build(values: Mapping[str, str]) -> list[str]:
        if {"a", "b"} <= values.keys():
            raise SettingError("c", "c: contradicts them", "")
        return [*values]

    built, refused = usable({"x": "", "a": "", "b": ""}, build, name_among)
    assert (built, [*refused]) == (["x", "b"], ["a"])
    with pytest.raises(SettingError):
        usable({}, lambda _: build({"a": "", "b": ""}), name_among)
