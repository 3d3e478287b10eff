"""Settings of groups: changed by clients, kept on the disks, and told to members at once."""

import errno
import itertools
import logging
from collections.abc import Mapping
from typing import Any

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.files import FileSystem
from ottla.base.resource_kinds import ResourceKind
from ottla.broker.broker import Broker
from ottla.broker.configs.config_changes import Alteration, ConfigChange, ConfigOperation
from ottla.broker.configs.group_configs import GroupConfigs
from ottla.broker.configs.settings import ConfigSource
from ottla.broker.quotas.quota_changes import QuotaAlteration
from ottla.config.broker import BrokerConfig
from ottla.config.group import GroupConfig
from ottla.config.usable import usable
from ottla.coordinator.consumer.requests import HeartbeatAnswer, HeartbeatRequest
from ottla.testing import CrashMode, CrashPoint, every_crash_point
from tests.support.altering import alter_group, alter_quota
from tests.support.brokers import at, disk, open_broker
from tests.support.metadata import settings as stored_settings
from tests.support.metadata import write_records

INTERVAL = "consumer.heartbeat.interval.ms"
TIMEOUT = "consumer.session.timeout.ms"


def settings(**values: str) -> Alteration:
    """All of a group's own settings."""
    changes = [
        ConfigChange(name=name.replace("_", "."), value=value) for name, value in values.items()
    ]
    return Alteration(changes=changes, is_whole=True)


def one(name: str, operation: ConfigOperation, value: str = "") -> Alteration:
    return Alteration(changes=[ConfigChange(name=name, operation=operation, value=value)])


def refusal(broker: Broker, alteration: Alteration, group_id: str = "g") -> ApiError:
    with pytest.raises(ApiError) as caught:
        alter_group(broker, group_id, alteration)
    return caught.value


def config_of(broker: Broker, group_id: str = "g") -> GroupConfig:
    return broker.settings.groups.of(group_id)


def beat(broker: Broker, epoch: int, *, now_ms: int = 0) -> HeartbeatAnswer:
    is_entering = epoch == 0
    request = HeartbeatRequest(
        group_id="g",
        member_id="m",
        epoch=epoch,
        rebalance_timeout_ms=60_000 if is_entering else -1,
        topic_names=frozenset({"t"}) if is_entering else None,
        owned=frozenset() if is_entering else None,
    )
    answer = broker.groups.carry_out(
        broker.groups.machines(at(now_ms))[0].consumer_heartbeat(request, at(now_ms)), at(now_ms)
    )
    broker.appends.write_out()
    return answer


def test_a_group_that_nobody_has_changed_is_told_what_all_are() -> None:
    broker = open_broker(disk("/d"), group_consumer_session_timeout_ms="50000")
    assert config_of(broker) == GroupConfig(consumer_session_timeout_ms=50_000)


def test_settings_are_set_and_taken_back_one_by_one_and_all_at_once() -> None:
    broker = open_broker(disk("/d"))
    alter_group(broker, "g", one(TIMEOUT, ConfigOperation.SET, "50000"))
    alter_group(broker, "g", one(INTERVAL, ConfigOperation.SET, "6000"))
    assert config_of(broker) == GroupConfig(
        consumer_session_timeout_ms=50_000, consumer_heartbeat_interval_ms=6000
    )
    alter_group(broker, "g", one(INTERVAL, ConfigOperation.DELETE))
    assert config_of(broker) == GroupConfig(consumer_session_timeout_ms=50_000)
    alter_group(broker, "g", settings(consumer_heartbeat_interval_ms="7000"))
    assert broker.settings.groups.overrides == {"g": {INTERVAL: "7000"}}
    alter_group(broker, "g", settings())
    assert broker.settings.groups.overrides == {}
    assert config_of(broker) == GroupConfig()


def test_a_member_is_told_and_held_to_what_holds_at_its_heartbeat() -> None:
    broker = open_broker(disk("/d"), offsets_topic_num_partitions="3")
    assert beat(broker, 0).heartbeat_interval_ms == 5000
    alter_group(
        broker,
        "g",
        settings(consumer_heartbeat_interval_ms="6000", consumer_session_timeout_ms="60000"),
    )
    assert beat(broker, 1).heartbeat_interval_ms == 6000
    broker.groups.advance(at(59_999))
    assert beat(broker, 1, now_ms=59_999).error is ErrorCode.NONE
    broker.groups.advance(at(119_999))
    assert beat(broker, 1, now_ms=119_999).error is ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(
    ("alteration", "message"),
    [
        (settings(streams_num_standby_replicas="1"), "Unknown group config name: streams.num."),
        (
            settings(share_delivery_count_limit="1"),
            "Invalid value 1 for configuration share.delivery.count.limit: "
            "Value must be at least 2",
        ),
        (settings(retention_ms="1"), "Unknown group config name: retention.ms"),
        (
            settings(consumer_session_timeout_ms="soon"),
            "Invalid value soon for configuration consumer.session.timeout.ms: "
            "Not a number of type INT",
        ),
        (
            settings(consumer_session_timeout_ms="0"),
            "Invalid value 0 for configuration consumer.session.timeout.ms: "
            "Value must be at least 1",
        ),
        (
            settings(consumer_session_timeout_ms="44999"),
            "Invalid value 44999 for configuration consumer.session.timeout.ms: "
            "group.consumer.min.session.timeout.ms and .max.session.timeout.ms allow "
            "45000 to 60000",
        ),
        (
            one(TIMEOUT, ConfigOperation.APPEND, "1"),
            "Can't APPEND to key consumer.session.timeout.ms because its type is not LIST.",
        ),
    ],
)
def test_what_no_group_may_have_is_refused(alteration: Alteration, message: str) -> None:
    broker = open_broker(disk("/d"))
    error = refusal(broker, alteration)
    assert error.code is ErrorCode.INVALID_CONFIG
    assert error.message.startswith(message)
    assert broker.settings.groups.overrides == {}


def test_a_session_that_is_over_before_the_next_heartbeat_is_refused() -> None:
    broker = open_broker(disk("/d"), group_consumer_min_session_timeout_ms="1000")
    alter_group(broker, "g", settings(consumer_session_timeout_ms="5001"))
    error = refusal(broker, one(INTERVAL, ConfigOperation.SET, "5001"))
    assert error.code is ErrorCode.INVALID_CONFIG
    assert error.message == (
        "consumer.heartbeat.interval.ms (5001) must be less than consumer.session.timeout.ms (5001)"
    )


def test_a_dry_run_changes_nothing() -> None:
    broker = open_broker(disk("/d"))
    alteration = settings(consumer_session_timeout_ms="50000")
    alter_group(broker, "g", alteration, validate_only=True)
    assert config_of(broker) == GroupConfig()
    with pytest.raises(ApiError):
        alter_group(broker, "g", settings(x="1"), validate_only=True)


def test_settings_survive_a_restart_and_changes_of_others() -> None:
    file_system = disk("/d", "/e")
    broker = open_broker(file_system, "/d", "/e")
    alter_group(broker, "g", settings(consumer_session_timeout_ms="50000"))
    alter_group(broker, "h", settings(consumer_session_timeout_ms="55000"))
    quota = QuotaAlteration(names=[("user", "u")], limits={"producer_byte_rate": 1.0})
    alter_quota(broker, quota)
    broker.admin.alter_broker(ConfigSource.BROKER, Alteration(changes=[]))
    broker.close()
    again = open_broker(file_system.crash(CrashMode.STRICT), "/d", "/e")
    assert config_of(again) == GroupConfig(consumer_session_timeout_ms=50_000)
    assert config_of(again, "h") == GroupConfig(consumer_session_timeout_ms=55_000)


def with_stored(**stored: str) -> FileSystem:
    """A directory as a broker under other bounds has left it."""
    file_system = disk("/d")
    open_broker(file_system).close()
    values = {name.replace("_", "."): value for name, value in stored.items()}
    write_records(file_system, *stored_settings(ResourceKind.GROUP, "g", values))
    return file_system


def test_what_the_broker_no_longer_allows_is_brought_within_its_bounds_with_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    file_system = with_stored(consumer_session_timeout_ms="50000")
    with caplog.at_level(logging.WARNING):
        broker = open_broker(file_system, group_consumer_max_session_timeout_ms="48000")
    assert config_of(broker) == GroupConfig(consumer_session_timeout_ms=48_000)
    assert "group g: consumer.session.timeout.ms=50000 is out" in caplog.text
    assert "48000 applies" in caplog.text
    alter_group(broker, "h", settings(consumer_session_timeout_ms="46000"))
    assert broker.settings.groups.overrides["g"] == {TIMEOUT: "50000"}, "kept as it was set"


def test_a_session_that_other_defaults_leave_no_heartbeat_is_warned_of(
    caplog: pytest.LogCaptureFixture,
) -> None:
    file_system = with_stored(consumer_session_timeout_ms="6000")
    with caplog.at_level(logging.WARNING):
        open_broker(
            file_system,
            group_consumer_min_session_timeout_ms="1000",
            group_consumer_heartbeat_interval_ms="6000",
        )
    assert "group g: consumer.heartbeat.interval.ms (6000) must be less than" in caplog.text


def test_a_disk_that_fails_keeps_the_old_settings() -> None:
    broker = open_broker(disk("/d"))
    broker.directories[0].health.fail(OSError(errno.EIO, "broken"))
    error = refusal(broker, settings(consumer_session_timeout_ms="50000"))
    assert error.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert config_of(broker) == GroupConfig()


def change_and_change_again(file_system: FileSystem, done: list[Any]) -> None:
    broker = open_broker(file_system, "/d", "/e", ids=itertools.count(1000))
    for value in ("50000", "55000"):
        alter_group(broker, "g", settings(consumer_session_timeout_ms=value))
        done.append(int(value))


def check_changes(point: CrashPoint) -> None:
    broker = open_broker(point.file_system, "/d", "/e")
    acknowledged = point.acknowledged[-1] if point.acknowledged else 45_000
    under_way = {45_000: 50_000}.get(acknowledged, 55_000)
    assert config_of(broker).consumer_session_timeout_ms in (acknowledged, under_way), point


@pytest.mark.slow
def test_settings_are_old_or_new_whenever_the_broker_crashes() -> None:
    points = every_crash_point(
        change_and_change_again, make_file_system=lambda: disk("/d", "/e"), seeds=1
    )
    assert sum(1 for _ in map(check_changes, points)) > 50


def test_settings_that_many_groups_have_are_parsed_once_and_each_bad_one_is_named(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed: list[Mapping[str, str]] = []

    def counting(values: Mapping[str, str], *rest: Any) -> Any:
        parsed.append(values)
        return usable(values, *rest)

    monkeypatch.setattr("ottla.broker.configs.group_configs.usable", counting)
    fine, other, bad = {TIMEOUT: "50000"}, {TIMEOUT: "51000"}, {TIMEOUT: "soon"}
    groups = GroupConfigs(BrokerConfig(), {"a": fine, "b": fine, "c": other, "d": bad, "e": bad})
    assert parsed == [fine, other, bad, bad]
    assert [groups.of(one).consumer_session_timeout_ms for one in "abcd"] == [
        50_000,
        50_000,
        51_000,
        45_000,
    ]
    assert [("group d" in one, "group e" in one) for one in caplog.messages] == [
        (True, False),
        (False, True),
    ]
    groups.change("b", other)
    assert groups.of("b") is groups.of("c")
    assert len(parsed) == 4
