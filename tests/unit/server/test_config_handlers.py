"""DescribeConfigs, AlterConfigs and IncrementalAlterConfigs, as clients see them."""

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.broker.broker import Broker
from ottla.config.group import GroupConfig
from ottla.config.setting import settings_of
from ottla.metadata.deciding.topics import NewTopic
from ottla.protocol.messages.alter_configs import AlterableConfig as NewConfig
from ottla.protocol.messages.alter_configs import AlterConfigsRequest
from ottla.protocol.messages.alter_configs import AlterConfigsResource as WholeResource
from ottla.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from ottla.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.protocol.messages.list_config_resources import ListConfigResourcesRequest
from ottla.testing.faults import FaultyFileSystem
from ottla.testing.recording import IoKind
from tests.support.asking import Asker
from tests.support.brokers import disk, open_broker
from tests.support.metadata import segment

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)


@pytest.fixture
def broker() -> Broker:
    broker = open_broker(disk("/d"), log_retention_hours="2", num_io_threads="3")
    broker.admin.create_topic(NewTopic(name="t"))
    return broker


@pytest.fixture
def asker(broker: Broker) -> Asker:
    return Asker(broker)


def described(asker: Asker, kind: int, name: str, *keys: str) -> dict[str, Any]:
    resource = DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=list(keys)
    )
    request = DescribeConfigsRequest(
        resources=[resource], include_synonyms=True, include_documentation=True
    )
    (result,) = asker.ask(request, 4).results
    assert result.error_code == 0
    return {one.name: one for one in result.configs}


def sources(config: Any) -> list[tuple[str, str, int]]:
    return [(one.name, one.value, one.source) for one in config.synonyms]


def altered(
    asker: Asker, kind: int, name: str, *configs: tuple[str, int, str | None], **fields: Any
) -> tuple[ErrorCode, str | None]:
    resource = AlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=[
            AlterableConfig(name=one, config_operation=operation, value=value)
            for one, operation, value in configs
        ],
    )
    request = IncrementalAlterConfigsRequest(resources=[resource], **fields)
    (response,) = asker.ask(request, 1).responses
    assert (response.resource_type, response.resource_name) == (kind, name)
    return ErrorCode(response.error_code), response.error_message


OK = (ErrorCode.NONE, None)


def test_a_topics_settings_are_changed_and_described(asker: Asker) -> None:
    assert altered(asker, TOPIC, "t", ("retention.ms", SET, "7")) == OK
    assert altered(asker, TOPIC, "t", ("cleanup.policy", APPEND, "compact")) == OK
    configs = described(asker, TOPIC, "t", "retention.ms", "cleanup.policy")
    assert (configs["retention.ms"].value, configs["retention.ms"].config_source) == ("7", 1)
    assert configs["cleanup.policy"].value == "delete,compact"
    assert configs["cleanup.policy"].config_type == 7
    assert altered(asker, TOPIC, "t", ("retention.ms", DELETE, None)) == OK
    config = described(asker, TOPIC, "t", "retention.ms")["retention.ms"]
    # The hours count, but Kafka tells them of log.retention.hours only.
    assert (config.value, config.config_source) == ("7200000", 5)
    assert sources(config) == []


def test_all_sources_of_a_setting_are_reported_in_the_order_in_which_they_count(
    asker: Asker,
) -> None:
    assert altered(asker, BROKER, "", ("log.segment.bytes", SET, "2000")) == OK
    assert altered(asker, BROKER, "1", ("log.segment.bytes", SET, "3000")) == OK
    assert altered(asker, TOPIC, "t", ("segment.bytes", SET, "4000")) == OK
    expected = [
        ("log.segment.bytes", "3000", 2),
        ("log.segment.bytes", "2000", 3),
        ("log.segment.bytes", "1073741824", 5),
    ]
    topic = described(asker, TOPIC, "t", "segment.bytes")["segment.bytes"]
    assert sources(topic) == [("segment.bytes", "4000", 1), *expected]
    broker = described(asker, BROKER, "1", "log.segment.bytes")["log.segment.bytes"]
    assert (broker.value, broker.config_source, broker.read_only) == ("3000", 2, False)
    assert sources(broker) == expected
    everywhere = described(asker, BROKER, "")
    assert {name: one.value for name, one in everywhere.items()} == {"log.segment.bytes": "2000"}


def test_a_brokers_settings_are_described_in_full(asker: Asker) -> None:
    configs = described(asker, BROKER, "1")
    assert all(one.documentation for one in configs.values())
    assert configs["num.partitions"].read_only
    assert configs["log.retention.minutes"].value is None
    assert configs["log.dirs"].value == "/d"
    assert {configs[name].value for name in ("node.id", "broker.id")} == {"1"}
    threads = configs["num.io.threads"]
    assert (threads.value, threads.config_source) == ("3", 4)
    assert configs["num.network.threads"].value == "3"


def test_a_secret_is_shown_to_nobody() -> None:
    values = {"ssl.keystore.password": "hunter2", "listener.name.x.sasl.jaas.config": "hunter3"}
    broker = open_broker(
        disk("/d"), **{name.replace(".", "_"): one for name, one in values.items()}
    )
    configs = described(Asker(broker), BROKER, "1", *values)
    assert set(configs) == set(values)
    for config in configs.values():
        assert (config.value, config.is_sensitive, config.config_type) == (None, True, 9)
        assert "hunter" not in repr(config)
    assert not described(Asker(broker), BROKER, "1")["num.partitions"].is_sensitive


@pytest.mark.parametrize("name", ["", "1"])
def test_a_secret_that_a_client_has_set_is_shown_to_nobody(asker: Asker, name: str) -> None:
    altered(asker, BROKER, name, ("sasl.jaas.config", SET, "hunter2"))
    (config,) = described(asker, BROKER, name, "sasl.jaas.config").values()
    assert (config.value, config.is_sensitive) == (None, True)
    assert "hunter" not in repr(config)


@pytest.mark.parametrize(("name", "source"), [("", 3), ("1", 2)])
def test_a_plugins_setting_is_accepted_with_a_warning_and_described_as_a_secret(
    asker: Asker, caplog: pytest.LogCaptureFixture, name: str, source: int
) -> None:
    assert altered(asker, BROKER, name, ("my.plugin.url", SET, "hunter2")) == OK
    assert altered(asker, BROKER, name, ("my.plugin.url", SET, "hunter3")) == OK
    assert altered(asker, BROKER, name, ("log.retention.hour", SET, "1"), validate_only=True) == OK
    assert [one.message for one in caplog.records] == [
        "settings that are not known and have no effect: my.plugin.url"
    ]
    (config,) = described(asker, BROKER, name, "my.plugin.url", "log.retention.hour").values()
    assert (config.value, config.config_source, config.config_type) == (None, source, 0)
    assert (config.is_sensitive, config.read_only, config.documentation) == (True, True, None)
    assert sources(config) == [("my.plugin.url", None, source)]
    code, message = altered(asker, BROKER, name, ("my.plugin.url", APPEND, "x"))
    assert (code, "type is not LIST" in str(message)) == (ErrorCode.INVALID_CONFIG, True)
    assert altered(asker, BROKER, name, ("my.plugin.url", DELETE, None)) == OK
    assert described(asker, BROKER, name, "my.plugin.url") == {}


def test_a_setting_of_a_plugins_family_is_described_as_a_secret_and_kept_for_the_owner() -> None:
    names = ("rsm.config.key", "other.plugin", "super.users", "listener.name.a.x.y")
    given = dict.fromkeys(names, "hunter2") | {"super.users": "User:a"}
    file_system = disk("/d")
    broker = open_broker(file_system, **{one.replace(".", "_"): two for one, two in given.items()})
    asker = Asker(broker)
    configs = described(asker, BROKER, "1", *names)
    assert {one: (each.config_type, each.value) for one, each in configs.items()} == dict.fromkeys(
        names, (0, None)
    )
    assert altered(asker, BROKER, "1", ("other.plugin", SET, "hunter3")) == OK
    whole = WholeResource(
        resource_type=BROKER,
        resource_name="1",
        configs=[NewConfig(name="rsm.config.key", value="hunter4")],
    )
    (answer,) = asker.ask(AlterConfigsRequest(resources=[whole]), 2).responses
    assert answer.error_code == 0
    assert broker.settings.config.given["rsm.config.key"] == "hunter4"
    assert broker.settings.config.given["other.plugin"] == "hunter2"


@pytest.fixture
def levels() -> Iterator[None]:
    """Levels of loggers as they are, whatever a test does."""
    loggers = [logging.getLogger("ottla"), logging.getLogger("ottla.broker.broker")]
    before = [one.level for one in loggers]
    yield
    for one, level in zip(loggers, before, strict=True):
        one.setLevel(level)


@pytest.mark.usefixtures("levels")
def test_the_levels_of_the_brokers_loggers_are_changed_while_it_runs(asker: Asker) -> None:
    name = "ottla.broker.broker"
    logging.getLogger(name)
    above = logging.root.level
    for text, number in (("TRACE", 5), ("FATAL", 50), ("WARN", 30)):
        assert altered(asker, LOGGER, "1", ("root", SET, text)) == OK
        assert {one.value for one in described(asker, LOGGER, "1", "root", name).values()} == {text}
        assert logging.getLogger("ottla").level == number
    assert altered(asker, LOGGER, "1", (name, SET, "DEBUG"), validate_only=True) == OK
    assert logging.getLogger(name).level == logging.NOTSET
    assert altered(asker, LOGGER, "1", (name, SET, "DEBUG")) == OK
    (config,) = described(asker, LOGGER, "1", name).values()
    assert (config.value, config.config_source, config.config_type) == ("DEBUG", 6, 0)
    assert (config.is_sensitive, config.read_only, config.synonyms) == (False, False, [])
    assert altered(asker, LOGGER, "1", (name, DELETE, None)) == OK
    assert described(asker, LOGGER, "1", name)[name].value == "WARN"
    assert logging.root.level == above
    both = (("root", SET, "ERROR"), ("no.such", SET, "INFO"))
    assert altered(asker, LOGGER, "1", *both)[0] is ErrorCode.INVALID_CONFIG
    assert described(asker, LOGGER, "1", "root")["root"].value == "WARN"


def test_levels_are_not_changed_as_a_whole(asker: Asker) -> None:
    resource = WholeResource(
        resource_type=LOGGER, resource_name="1", configs=[NewConfig(name="root", value="INFO")]
    )
    (answer,) = asker.ask(AlterConfigsRequest(resources=[resource]), 2).responses
    assert answer.error_code == ErrorCode.INVALID_REQUEST


def test_a_subscription_to_metrics_is_changed_described_listed_and_kept() -> None:
    file_system = disk("/d")
    broker = open_broker(file_system)
    asker = Asker(broker)
    wanted = (("interval.ms", SET, "100"), ("metrics", SET, "org.a"), ("match", SET, "client_id=a"))
    assert altered(asker, METRICS, "m", *wanted, validate_only=True) == OK
    assert broker.settings.client_metrics == {}
    assert altered(asker, METRICS, "m", *wanted) == OK
    assert altered(asker, METRICS, "m", ("metrics", APPEND, "org.b,org.c")) == OK
    assert altered(asker, METRICS, "m", ("metrics", SUBTRACT, "org.a")) == OK
    configs = described(asker, METRICS, "m")
    assert {name: (one.value, one.config_source) for name, one in configs.items()} == {
        "interval.ms": ("100", 7),
        "match": ("client_id=a", 7),
        "metrics": ("org.b,org.c", 7),
    }
    for version in (0, 1):
        listed = asker.ask(ListConfigResourcesRequest(resource_types=[]), version)
        names = [one.resource_name for one in listed.config_resources]
        assert ("m" in names, listed.error_code) == (True, 0)
    broker.close()
    asker = Asker(open_broker(file_system))
    assert described(asker, METRICS, "m", "metrics")["metrics"].value == "org.b,org.c"
    for name in ("interval.ms", "match", "metrics"):
        assert altered(asker, METRICS, "m", (name, DELETE, None)) == OK
    assert asker.broker.settings.client_metrics == {}
    (interval,) = described(asker, METRICS, "m", "interval.ms").values()
    assert (interval.value, interval.config_source) == ("300000", 5)


TIMEOUT, INTERVAL = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"


def test_a_groups_settings_are_changed_and_described(asker: Asker) -> None:
    assert altered(asker, GROUP, "g", (TIMEOUT, SET, "50000")) == OK
    configs = described(asker, GROUP, "g")
    assert set(configs) == settings_of(GroupConfig).keys()
    assert all(one.documentation for one in configs.values())
    assert not any(one.read_only or one.is_sensitive for one in configs.values())
    timeout, interval = configs[TIMEOUT], configs[INTERVAL]
    assert (timeout.value, timeout.config_source, timeout.config_type) == ("50000", 8, 3)
    assert sources(timeout) == [(TIMEOUT, "50000", 8), (f"group.{TIMEOUT}", "45000", 5)]
    assert (interval.value, interval.config_source) == ("5000", 5)
    assert altered(asker, GROUP, "g", (TIMEOUT, DELETE, None)) == OK
    (timeout,) = described(asker, GROUP, "g", TIMEOUT).values()
    assert (timeout.value, timeout.config_source) == ("45000", 5)


def test_a_group_that_is_not_there_has_the_settings_that_its_broker_was_given() -> None:
    broker = open_broker(disk("/d"), group_consumer_session_timeout_ms="50000")
    (timeout,) = described(Asker(broker), GROUP, "nobody", TIMEOUT).values()
    assert (timeout.value, timeout.config_source) == ("50000", 4)
    assert sources(timeout) == [(f"group.{TIMEOUT}", "50000", 4), (f"group.{TIMEOUT}", "45000", 5)]


def test_a_group_without_a_name_has_no_settings(asker: Asker) -> None:
    resource = DescribeConfigsResource(resource_type=GROUP, resource_name="")
    (result,) = asker.ask(DescribeConfigsRequest(resources=[resource]), 4).results
    assert result.error_code == ErrorCode.INVALID_REQUEST
    assert result.error_message == "Group name must not be empty"
    assert result.configs == []


def test_a_whole_alteration_of_a_group_forgets_what_it_does_not_name(
    asker: Asker, broker: Broker
) -> None:
    assert altered(asker, GROUP, "g", (TIMEOUT, SET, "50000")) == OK
    configs = [NewConfig(name=INTERVAL, value="6000")]
    resources = [WholeResource(resource_type=GROUP, resource_name="g", configs=configs)]
    for dry, expected in ((True, {TIMEOUT: "50000"}), (False, {INTERVAL: "6000"})):
        answer = asker.ask(AlterConfigsRequest(resources=resources, validate_only=dry), 2)
        assert [one.error_code for one in answer.responses] == [0]
        assert broker.settings.groups.overrides == {"g": expected}


def test_a_whole_alteration_forgets_what_it_does_not_name(asker: Asker, broker: Broker) -> None:
    assert altered(asker, TOPIC, "t", ("retention.ms", SET, "7")) == OK
    configs = [NewConfig(name="segment.bytes", value="4000")]
    resources = [WholeResource(resource_type=TOPIC, resource_name="t", configs=configs)]
    for dry, expected in ((True, {"retention.ms": "7"}), (False, {"segment.bytes": "4000"})):
        answer = asker.ask(AlterConfigsRequest(resources=resources, validate_only=dry), 2)
        assert [one.error_code for one in answer.responses] == [0]
        assert broker.topics.get("t").overrides == expected


@pytest.mark.parametrize(
    ("resource", "config", "code", "message"),
    [
        ((TOPIC, "u"), ("retention.ms", SET, "1"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ""),
        ((TOPIC, "a b"), ("retention.ms", SET, "1"), ErrorCode.INVALID_TOPIC_EXCEPTION, ""),
        ((TOPIC, "t"), ("x", SET, "1"), ErrorCode.INVALID_CONFIG, "Unknown topic config name: x"),
        (
            (TOPIC, "t"),
            ("retention.ms", SET, None),
            ErrorCode.INVALID_REQUEST,
            "Null value not supported for : retention.ms",
        ),
        ((TOPIC, "t"), ("retention.ms", 9, "1"), ErrorCode.INVALID_REQUEST, "operations type 9"),
        (
            (BROKER, "2"),
            ("log.retention.ms", SET, "1"),
            ErrorCode.INVALID_REQUEST,
            "Unexpected broker id, expected 1, but received 2",
        ),
        ((BROKER, "x"), ("log.retention.ms", SET, "1"), ErrorCode.INVALID_REQUEST, "integer"),
        ((GROUP, ""), (TIMEOUT, SET, "50000"), ErrorCode.INVALID_REQUEST, "must not be empty"),
        (
            (GROUP, "g"),
            ("streams.session.timeout.ms", SET, "50000"),
            ErrorCode.INVALID_CONFIG,
            "Unknown group config name: streams.session.timeout.ms",
        ),
        (
            (GROUP, "g"),
            ("streams.num.standby.replicas", SET, "1"),
            ErrorCode.INVALID_CONFIG,
            "Unknown group config name: streams.num.standby.replicas",
        ),
        ((GROUP, "g"), (TIMEOUT, SET, "1"), ErrorCode.INVALID_CONFIG, "allow 45000 to 60000"),
        ((GROUP, "g"), (TIMEOUT, SET, None), ErrorCode.INVALID_REQUEST, "Null value"),
        ((GROUP, "g"), (TIMEOUT, APPEND, "1"), ErrorCode.INVALID_CONFIG, "type is not LIST"),
        ((LOGGER, "2"), ("root", SET, "INFO"), ErrorCode.INVALID_REQUEST, "Unexpected broker id"),
        ((LOGGER, ""), ("root", SET, "INFO"), ErrorCode.INVALID_REQUEST, "must not be empty"),
        ((LOGGER, "1"), ("org.x", SET, "INFO"), ErrorCode.INVALID_CONFIG, "org.x does not exist!"),
        ((LOGGER, "1"), ("root", SET, "LOUD"), ErrorCode.INVALID_CONFIG, "TRACE, DEBUG, INFO, WAR"),
        ((LOGGER, "1"), ("root", DELETE, None), ErrorCode.INVALID_REQUEST, "is not allowed"),
        ((LOGGER, "1"), ("root", APPEND, "INFO"), ErrorCode.INVALID_REQUEST, "is not allowed"),
        ((LOGGER, "1"), ("root", SUBTRACT, "INFO"), ErrorCode.INVALID_REQUEST, "is not allowed"),
        ((METRICS, ""), ("metrics", SET, "*"), ErrorCode.INVALID_REQUEST, "name can't be empty"),
        ((METRICS, "m"), ("x", SET, "*"), ErrorCode.INVALID_REQUEST, "Unknown client metrics"),
        ((METRICS, "m"), ("interval.ms", SET, "99"), ErrorCode.INVALID_REQUEST, "between 100 and"),
        ((METRICS, "m"), ("interval.ms", SET, "3600001"), ErrorCode.INVALID_REQUEST, "between"),
        ((METRICS, "m"), ("interval.ms", SET, "x"), ErrorCode.INVALID_CONFIG, "Not a number"),
        ((METRICS, "m"), ("interval.ms", APPEND, "1"), ErrorCode.INVALID_CONFIG, "not LIST"),
        ((METRICS, "m"), ("match", SET, "client_id"), ErrorCode.INVALID_CONFIG, "Illegal client"),
        ((METRICS, "m"), ("match", SET, "color=a"), ErrorCode.INVALID_CONFIG, "Illegal client"),
        ((METRICS, "m"), ("match", SET, "client_id=("), ErrorCode.INVALID_CONFIG, "Illegal client"),
        ((METRICS, "m"), ("match", SET, "client_id=a=b"), ErrorCode.INVALID_CONFIG, "Illegal cl"),
        ((99, "1"), ("a", SET, "b"), ErrorCode.INVALID_REQUEST, "no settings here"),
    ],
)
def test_a_change_that_cannot_be_is_refused_with_kafkas_code(
    asker: Asker,
    resource: tuple[int, str],
    config: tuple[str, int, str | None],
    code: ErrorCode,
    message: str,
) -> None:
    told_code, told = altered(asker, *resource, config)
    assert told_code is code
    assert message in (told or "")


def test_a_setting_or_a_resource_named_twice_is_refused(asker: Asker, broker: Broker) -> None:
    twice = (("retention.ms", SET, "1"), ("retention.ms", SET, "2"))
    assert altered(asker, TOPIC, "t", *twice) == (
        ErrorCode.INVALID_REQUEST,
        "Error due to duplicate config keys",
    )
    resources = [AlterConfigsResource(resource_type=TOPIC, resource_name="t")] * 2
    answer = asker.ask(IncrementalAlterConfigsRequest(resources=resources), 1)
    assert [one.error_code for one in answer.responses] == [ErrorCode.INVALID_REQUEST] * 2
    assert broker.topics.get("t").overrides == {}


def test_all_groups_of_a_request_are_written_down_at_once() -> None:
    file_system = FaultyFileSystem(disk("/d"))
    asker = Asker(open_broker(file_system))
    config = AlterableConfig(
        name="consumer.session.timeout.ms", config_operation=SET, value="50000"
    )
    resources = [
        AlterConfigsResource(resource_type=GROUP, resource_name=name, configs=[config])
        for name in ("g", "h", "", "i", "i")
    ]
    first = AlterConfigsResource(resource_type=GROUP, resource_name="first", configs=[config])
    asker.ask(IncrementalAlterConfigsRequest(resources=[first]), 1)
    made = len(file_system.calls)
    answer = asker.ask(IncrementalAlterConfigsRequest(resources=resources), 1)
    refused = ErrorCode.INVALID_REQUEST
    assert [one.error_code for one in answer.responses] == [0, 0, refused, refused, refused]
    written = [call.path for call in file_system.calls[made:] if call.kind is IoKind.PWRITE]
    assert written == [segment()]
    assert sorted(asker.broker.settings.groups.overrides) == ["first", "g", "h"]


def test_a_dry_run_changes_nothing(asker: Asker, broker: Broker) -> None:
    config = ("retention.ms", SET, "1")
    assert altered(asker, TOPIC, "t", config, validate_only=True) == OK
    assert broker.topics.get("t").overrides == {}
