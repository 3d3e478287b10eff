"""Settings changed while the broker runs: they hold at once, and after a restart or crash."""

import errno
import itertools
from functools import partial
from typing import Any

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError, UserError
from ottla.base.files import FileSystem
from ottla.base.resource_kinds import ResourceKind
from ottla.broker.broker import Broker
from ottla.broker.configs.config_changes import Alteration, ConfigChange, ConfigOperation
from ottla.broker.configs.settings import ConfigSource
from ottla.metadata.deciding.topics import NewTopic
from ottla.testing import CrashMode
from ottla.testing.crash_points import CrashPoint, every_crash_point
from ottla.testing.faults import FaultPlan, FaultyFileSystem
from tests.support.brokers import NOW_MS, batch, disk, open_broker
from tests.support.metadata import record_settings
from tests.support.turns import TakingTurns

OWN, ALL = ConfigSource.BROKER, ConfigSource.ALL_BROKERS


def settings(**values: str) -> Alteration:
    changes = [
        ConfigChange(name=name.replace("_", "."), value=text) for name, text in values.items()
    ]
    return Alteration(changes=changes, is_whole=True)


def with_topics() -> Broker:
    broker = open_broker(disk("/d"))
    broker.admin.create_topic(NewTopic(name="plain"))
    broker.admin.create_topic(NewTopic(name="own", overrides={"retention.ms": "5"}))
    return broker


def retention_of(broker: Broker, topic: str) -> tuple[int, int]:
    """What the topic says, and what its log does."""
    found = broker.topics.get(topic)
    return found.config.retention_ms, found.partitions[0].log.config.retention_ms


def refusal(broker: Broker, alteration: Alteration, scope: ConfigSource = OWN) -> ApiError:
    with pytest.raises(ApiError) as caught:
        broker.admin.alter_broker(scope, alteration)
    return caught.value


def test_a_topics_settings_hold_at_once_and_after_a_restart() -> None:
    file_system = disk("/d")
    broker = open_broker(file_system)
    broker.admin.create_topic(NewTopic(name="t"))
    broker.admin.alter_topic("t", settings(retention_ms="7", segment_bytes="1000"))
    assert retention_of(broker, "t") == (7, 7)
    broker.close()
    again = open_broker(file_system.crash(CrashMode.STRICT))
    assert retention_of(again, "t") == (7, 7)
    assert again.topics.get("t").overrides == {"retention.ms": "7", "segment.bytes": "1000"}


def test_a_dry_run_and_a_refusal_change_nothing() -> None:
    broker = with_topics()
    broker.admin.alter_topic("own", settings(retention_ms="9"), validate_only=True)
    with pytest.raises(ApiError) as caught:
        broker.admin.alter_topic("own", settings(retention_ms="-2"))
    assert caught.value.code is ErrorCode.INVALID_CONFIG
    assert caught.value.message == (
        "Invalid value -2 for configuration retention.ms: Value must be at least -1"
    )
    broker.admin.alter_broker(OWN, settings(log_retention_ms="9"), validate_only=True)
    assert retention_of(broker, "own") == (5, 5)
    assert retention_of(broker, "plain") == (604_800_000, 604_800_000)


def test_settings_that_contradict_each_other_are_refused() -> None:
    broker = with_topics()
    with pytest.raises(ApiError, match="conflict") as caught:
        broker.admin.alter_topic(
            "own", settings(min_compaction_lag_ms="9", max_compaction_lag_ms="8")
        )
    assert caught.value.code is ErrorCode.INVALID_CONFIG


def test_a_brokers_setting_reaches_the_topics_that_have_none_of_their_own() -> None:
    broker = with_topics()
    broker.admin.alter_broker(ALL, settings(log_retention_ms="70"))
    assert retention_of(broker, "plain") == (70, 70)
    assert retention_of(broker, "own") == (5, 5)
    broker.admin.alter_broker(OWN, settings(log_retention_ms="80"))
    assert retention_of(broker, "plain") == (80, 80), "its own counts before that of all"
    assert broker.settings.config.topic_defaults.retention_ms == 80
    broker.admin.alter_broker(OWN, settings())
    assert retention_of(broker, "plain") == (70, 70)
    broker.admin.create_topic(NewTopic(name="new"))
    assert retention_of(broker, "new") == (70, 70)


def test_a_brokers_settings_survive_a_restart_over_those_it_is_started_with() -> None:
    file_system = disk("/d", "/e")
    broker = open_broker(file_system, "/d", "/e", log_retention_ms="60")
    broker.admin.create_topic(NewTopic(name="plain"))
    broker.admin.alter_broker(ALL, settings(log_retention_ms="70"))
    broker.close()
    after = file_system.crash(CrashMode.STRICT)
    assert retention_of(open_broker(after, "/d", "/e", log_retention_ms="65"), "plain") == (70, 70)


@pytest.mark.parametrize(
    ("alteration", "code", "message"),
    [
        (settings(num_partitions="3"), ErrorCode.INVALID_REQUEST, "dynamically: [num.partitions]"),
        (settings(zookeeper_connect="x"), ErrorCode.INVALID_REQUEST, "[zookeeper.connect]"),
        (settings(super_users="User:a"), ErrorCode.INVALID_REQUEST, "[super.users]"),
        (
            settings(log_retention_ms="x"),
            ErrorCode.INVALID_REQUEST,
            "Invalid value x for configuration log.retention.ms: Not a number of type LONG",
        ),
    ],
)
def test_a_setting_that_cannot_be_changed_is_refused(
    alteration: Alteration, code: ErrorCode, message: str
) -> None:
    error = refusal(with_topics(), alteration)
    assert error.code is code
    assert message in error.message


def test_defaults_that_contradict_a_topic_are_refused() -> None:
    broker = with_topics()
    broker.admin.alter_topic("own", settings(max_compaction_lag_ms="8"))
    error = refusal(broker, settings(log_cleaner_min_compaction_lag_ms="9"))
    assert error.code is ErrorCode.INVALID_CONFIG
    assert broker.topics.get("plain").config.min_compaction_lag_ms == 0


def test_a_setting_without_effect_may_be_changed_if_kafka_allows_it() -> None:
    broker = with_topics()
    broker.admin.alter_broker(
        OWN, settings(num_io_threads="16", sasl_kerberos_min_time_before_relogin="58000")
    )
    assert broker.settings.config.given["num.io.threads"] == "16"
    assert broker.settings.config.given["sasl.kerberos.min.time.before.relogin"] == "58000"


def test_a_disk_that_fails_keeps_the_old_settings() -> None:
    probe = FaultyFileSystem(disk("/d", "/e"))
    open_broker(probe, "/d", "/e").admin.create_topic(NewTopic(name="plain", partition_count=2))
    plan = FaultPlan(at_call=len(probe.calls), error=OSError(errno.EIO, "broken"))
    broker = open_broker(FaultyFileSystem(disk("/d", "/e"), plan), "/d", "/e")
    broker.admin.create_topic(NewTopic(name="plain", partition_count=2))
    error = refusal(broker, settings(log_retention_ms="70"))
    assert error.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert broker.settings.config.topic_defaults.retention_ms == 604_800_000
    error = refusal(broker, settings(log_retention_ms="80"))
    assert error.code is ErrorCode.KAFKA_STORAGE_ERROR
    partition = broker.topics.partition("plain", 1)
    assert partition.directory.path == "/e"
    assert broker.appends.append(partition, batch(), now_ms=NOW_MS).size, (
        "records are written and read"
    )


def test_without_any_disk_nothing_can_be_changed() -> None:
    broker = with_topics()
    broker.directories[0].health.fail(OSError(errno.EIO, "broken"))
    error = refusal(broker, settings(log_retention_ms="70"))
    assert error.code is ErrorCode.KAFKA_STORAGE_ERROR


def change_and_change_again(file_system: FileSystem, done: list[Any]) -> None:
    broker = open_broker(file_system, "/d", "/e", ids=itertools.count(1000))
    for value in ("1", "2"):
        broker.admin.alter_broker(ALL, settings(log_retention_ms=value))
        done.append(int(value))


def check_changes(point: CrashPoint) -> None:
    broker = open_broker(point.file_system, "/d", "/e")
    acknowledged = point.acknowledged[-1] if point.acknowledged else 604_800_000
    under_way = {604_800_000: 1, 1: 2, 2: 2}[acknowledged]
    assert broker.settings.config.topic_defaults.retention_ms in (acknowledged, under_way), point
    broker.admin.alter_broker(ALL, settings(log_retention_ms="3"))
    broker.close()
    again = open_broker(point.file_system.crash(CrashMode.STRICT), "/d", "/e")
    assert again.settings.config.topic_defaults.retention_ms == 3, point


@pytest.mark.slow
def test_settings_are_old_or_new_whenever_the_broker_crashes() -> None:
    points = every_crash_point(
        change_and_change_again, make_file_system=lambda: disk("/d", "/e"), seeds=1
    )
    assert sum(1 for _ in map(check_changes, points)) > 50


def test_a_broker_is_the_node_that_it_is_told_to_be() -> None:
    file_system = disk("/d")
    broker = open_broker(file_system, node_id="7")
    assert broker.node_id == 7
    assert (broker.settings.config.node_id, broker.settings.config.broker_id) == (7, 7)
    broker.close()
    after = file_system.crash(CrashMode.KEEP)
    with pytest.raises(UserError, match=r"/d belongs to node 7, but node.id is 8"):
        open_broker(after, broker_id="8")
    with pytest.raises(UserError, match="must be the same"):
        open_broker(after, broker_id="8", node_id="7")
    assert open_broker(after).node_id == 7


STORED = {"retention.ms": "many", "segment.bytes": "1000", "max.message.bytes": "-7"}
"""Two of these are not valid, or not any more."""


def with_invalid_settings() -> Broker:
    file_system = disk("/d")
    broker = open_broker(file_system)
    broker.admin.create_topic(NewTopic(name="t"))
    record_settings(broker, "t", STORED)
    broker.close()
    return open_broker(file_system)


@pytest.mark.parametrize(
    ("change", "left"),
    [
        (("retention.ms", None), {"segment.bytes", "max.message.bytes"}),
        (("segment.bytes", None), {"retention.ms", "max.message.bytes"}),
        (("segment.bytes", "2000"), STORED.keys()),
        (("retention.ms", "9"), STORED.keys()),
        (("index.interval.bytes", "9"), {*STORED, "index.interval.bytes"}),
    ],
)
def test_a_topic_with_invalid_stored_settings_can_be_changed_and_cleared_of_them(
    change: tuple[str, str | None], left: set[str], caplog: pytest.LogCaptureFixture
) -> None:
    broker = with_invalid_settings()
    assert {one for one in STORED if f"{one}=" in caplog.text} == {
        "retention.ms", "max.message.bytes",
    }  # fmt: skip
    topic = broker.topics.get("t")
    assert topic.config.segment_bytes == 1000
    name, value = change
    operation = ConfigOperation.DELETE if value is None else ConfigOperation.SET
    one = ConfigChange(name=name, operation=operation, value=value or "")
    broker.admin.alter_topic("t", Alteration(changes=[one]))
    assert topic.overrides.keys() == left
    assert topic.config.max_message_bytes == broker.settings.config.topic_defaults.max_message_bytes
    wrong = ConfigChange(name="retention.ms", value="few")
    with pytest.raises(ApiError, match="few"):
        broker.admin.alter_topic("t", Alteration(changes=[wrong]))


def test_a_group_with_invalid_stored_settings_can_be_changed_and_cleared_of_them() -> None:
    broker = open_broker(disk("/d"))
    heartbeat, session = "consumer.heartbeat.interval.ms", "consumer.session.timeout.ms"
    stored = {"g": {heartbeat: "often", session: "50000"}}
    image = broker.admin._metadata.image
    broker.admin._metadata.replace(image.with_configs(ResourceKind.GROUP, stored), ())

    def altered(one: ConfigChange) -> dict[str, ApiError]:
        return broker.admin.alter_groups({"g": lambda: Alteration(changes=[one])})

    assert altered(ConfigChange(name=session, value="46000")) == {}
    assert broker.settings.groups.of("g").consumer_session_timeout_ms == 46_000
    assert set(altered(ConfigChange(name=heartbeat, value="seldom"))) == {"g"}
    assert altered(ConfigChange(name=session, operation=ConfigOperation.DELETE)) == {}
    assert altered(ConfigChange(name=heartbeat, operation=ConfigOperation.DELETE)) == {}
    assert broker.settings.groups.overrides == {}


@pytest.mark.parametrize("slices_before", range(0, 40, 4))
def test_defaults_change_in_turns_and_the_last_change_holds_for_all_topics(
    slices_before: int,
) -> None:
    broker = open_broker(disk("/d"))
    for number in range(8):
        own = {"segment.bytes": "1000"} if number % 2 else {}
        broker.admin.create_topic(NewTopic(name=f"t-{number}", overrides=own))

    def alter(value: str) -> None:
        broker.admin.alter_broker(ALL, settings(log_retention_ms=value))

    with TakingTurns() as turns:
        turns.begin(partial(alter, "7"))
        turns.run(slices_before)
        turns.begin(partial(alter, "9"))
    value = broker.settings.config.topic_defaults.retention_ms
    assert value == 9
    assert {retention_of(broker, f"t-{number}") for number in range(8)} == {(value, value)}
    assert broker.topics.get("t-3").config.segment_bytes == 1000
