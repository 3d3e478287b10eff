"""The settings of tiered topics: what may stand together, and what limits local segments."""

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.config.broker import broker_config
from ottla.config.cross_checks import check_reconfiguration
from ottla.config.setting import SettingError, with_values
from ottla.config.topic import TopicConfig
from ottla.metadata.deciding.topic_rules import (
    changed_settings,
    new_topic_config,
    stored_config,
)

TIERED = {"remote.storage.enable": "true"}
WITH_TIER = TopicConfig(has_remote_storage=True)

REFUSED: dict[str, tuple[dict[str, str], str, str]] = {
    "a compacted topic": (
        {"cleanup.policy": "compact"},
        "cleanup.policy",
        "Remote log storage only supports topics with cleanup.policy=delete",
    ),
    "a topic that is compacted too": (
        {"cleanup.policy": "compact,delete"}, "cleanup.policy", "only supports",
    ),
    "more time locally than in all": (
        {"retention.ms": "100", "local.retention.ms": "101"},
        "local.retention.ms",
        "Invalid value 101 for configuration local.retention.ms: Value must not be more than "
        "property: retention.ms value 100",
    ),
    "more bytes locally than in all": (
        {"retention.bytes": "100", "local.retention.bytes": "101"},
        "local.retention.bytes",
        "Value must not be more than property: retention.bytes value 100",
    ),
    "no limit of time locally, but one in all": (
        {"retention.ms": "100", "local.retention.ms": "-1"},
        "local.retention.ms",
        "Value must not be -1 as retention.ms value is set as 100.",
    ),
    "no limit of bytes locally, but one in all": (
        {"retention.bytes": "100", "local.retention.bytes": "-1"},
        "local.retention.bytes",
        "Value must not be -1 as retention.bytes value is set as 100.",
    ),
    "a local time of its own without copies": (
        {"remote.log.copy.disable": "true", "retention.ms": "100", "local.retention.ms": "50"},
        "local.retention.ms",
        "the `local.retention.ms` and `retention.ms` must be set to the identical value",
    ),
    "a local size of its own without copies": (
        {"remote.log.copy.disable": "true", "local.retention.bytes": "50"},
        "local.retention.bytes",
        "the `local.retention.bytes` and `retention.bytes` must be set to the identical value",
    ),
    "a copy that comes after the local time": (
        {"local.retention.ms": "50", "remote.copy.lag.ms": "51"},
        "remote.copy.lag.ms",
        "Value must not be more than the local retention, 50.",
    ),
    "a copy that comes after the local size": (
        {"retention.bytes": "50", "remote.copy.lag.bytes": "51"},
        "remote.copy.lag.bytes",
        "Value must not be more than the local retention, 50.",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_settings_of_a_tiered_topic_that_contradict_each_other(case: str) -> None:
    values, name, message = REFUSED[case]
    config = with_values(WITH_TIER, {**TIERED, **values})
    with pytest.raises(SettingError) as caught:
        config.check()
    assert caught.value.name == name
    assert message in caught.value.api_message
    with_values(WITH_TIER, values).check()  # without a tier they have no effect


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"retention.ms": "100", "local.retention.ms": "100", "remote.copy.lag.ms": "100"},
        {"retention.ms": "100", "local.retention.ms": "-2", "remote.copy.lag.ms": "-1"},
        {"retention.ms": "-1", "local.retention.ms": "-1", "remote.copy.lag.ms": "100"},
        {"retention.bytes": "100", "local.retention.bytes": "0", "remote.copy.lag.bytes": "0"},
        {"remote.log.copy.disable": "true", "retention.ms": "9", "local.retention.ms": "9"},
        {"remote.log.copy.disable": "true", "retention.ms": "9", "local.retention.ms": "-2"},
    ],
)
def test_settings_of_a_tiered_topic_that_may_be(values: dict[str, str]) -> None:
    with_values(WITH_TIER, {**TIERED, **values}).check()


@pytest.mark.parametrize(
    ("values", "limits"),
    [
        ({"local.retention.ms": "5", "local.retention.bytes": "6"}, (50, 60)),
        ({**TIERED}, (50, 60)),
        ({**TIERED, "local.retention.ms": "5", "local.retention.bytes": "6"}, (5, 6)),
        ({**TIERED, "local.retention.ms": "0", "local.retention.bytes": "0"}, (0, 0)),
        ({**TIERED, "local.retention.ms": "5", "remote.log.copy.disable": "true"}, (50, 60)),
    ],
)
def test_local_segments_have_limits_of_their_own_only_where_they_are_copied(
    values: dict[str, str], limits: tuple[int, int]
) -> None:
    config = with_values(TopicConfig(retention_ms=50, retention_bytes=60), values)
    assert (config.local_limit_ms, config.local_limit_bytes) == limits


def test_a_broker_without_a_tier_makes_no_topic_tiered() -> None:
    for defaults, before in ((TopicConfig(), {}), (TopicConfig(), {"retention.ms": "5"})):
        with pytest.raises(ApiError, match="Tiered Storage functionality is disabled") as caught:
            new_topic_config("t", defaults, TIERED)
        assert caught.value.code is ErrorCode.INVALID_CONFIG
        with pytest.raises(ApiError, match="Tiered Storage functionality is disabled"):
            changed_settings("t", defaults, before, TIERED)
    assert new_topic_config("t", WITH_TIER, TIERED).remote_storage_enable
    changed_settings("t", WITH_TIER, {}, TIERED)


def test_a_topic_that_another_broker_has_tiered_stays_so_without_a_tier() -> None:
    config, refused = stored_config(TopicConfig(), TIERED)
    assert config.remote_storage_enable
    assert not refused
    changed_settings("t", TopicConfig(), TIERED, {**TIERED, "retention.ms": "5"})


def test_what_contradicts_a_tier_is_ignored_and_not_the_tier() -> None:
    stored = {**TIERED, "cleanup.policy": "compact", "local.retention.ms": "-1"}
    config, refused = stored_config(TopicConfig(), stored)
    assert config.remote_storage_enable
    assert set(refused) == {"cleanup.policy", "local.retention.ms"}


@pytest.mark.parametrize("name", ["__consumer_offsets", "__remote_log_metadata"])
def test_an_internal_topic_is_never_tiered(name: str) -> None:
    with pytest.raises(ApiError, match="is internal") as caught:
        new_topic_config(name, WITH_TIER, TIERED)
    assert caught.value.code is ErrorCode.INVALID_CONFIG
    with pytest.raises(ApiError, match=r"is internal|cleanup\.policy") as caught:
        changed_settings(name, WITH_TIER, {}, TIERED)
    assert caught.value.code is ErrorCode.INVALID_CONFIG


@pytest.mark.parametrize("after", [{}, {"remote.storage.enable": "false"}])
@pytest.mark.parametrize("defaults", [WITH_TIER, TopicConfig()])
def test_a_tier_is_turned_off_only_with_its_deletion(
    defaults: TopicConfig, after: dict[str, str]
) -> None:
    with pytest.raises(ApiError, match="without deleting remote data") as caught:
        changed_settings("t", defaults, TIERED, after)
    assert caught.value.code is ErrorCode.INVALID_CONFIG
    deleting = {"remote.log.delete.on.disable": "true"}
    changed_settings("t", defaults, TIERED, {**after, **deleting})
    changed_settings("t", defaults, {**TIERED, **deleting}, {**after, **deleting})


def test_the_settings_of_a_broker_decide_whether_topics_may_be_tiered() -> None:
    class_name = "org.apache.kafka.server.log.remote.storage.LocalTieredStorage"
    enabled = {"remote.log.storage.system.enable": "true"}
    named = {**enabled, "remote.log.storage.manager.class.name": class_name}
    assert broker_config(named).topic_defaults.has_remote_storage
    assert not broker_config({}).topic_defaults.has_remote_storage
    with pytest.raises(SettingError, match="required with"):
        broker_config(enabled)
    factor = "rlmm.config.remote.log.metadata.topic.replication.factor"
    with pytest.raises(SettingError, match="a single broker holds one replica"):
        broker_config({**named, factor: "3"})
    with pytest.raises(SettingError, match="TopicBasedRemoteLogMetadataManager is supported"):
        broker_config({**named, "remote.log.metadata.manager.class.name": "a.Manager"})


def test_local_retention_may_not_be_longer_than_retention_at_run_time() -> None:
    old = broker_config({})
    for unit in ("ms", "bytes"):
        whole, local = f"log.retention.{unit}", f"log.local.retention.{unit}"
        check_reconfiguration(old, broker_config({whole: "100", local: "100"}))
        check_reconfiguration(old, broker_config({whole: "100", local: "-2"}))
        check_reconfiguration(old, broker_config({whole: "-1", local: "-1"}))
        for value in ("101", "-1"):
            with pytest.raises(SettingError, match=local):
                check_reconfiguration(old, broker_config({whole: "100", local: value}))
