"""What one group may be told: Kafka's names, the broker's defaults and bounds."""

import pytest

from ottla.config.broker import broker_config
from ottla.config.group import GroupConfig
from ottla.config.group_coordinator import GroupCoordinatorConfig
from ottla.config.offset_reset import OffsetReset, read_offset_reset
from ottla.config.setting import SettingError, settings_of, with_values


def test_groups_are_told_what_their_coordinator_is() -> None:
    assert GroupCoordinatorConfig().group_defaults == GroupConfig()
    given = {
        "group.consumer.session.timeout.ms": "50000",
        "group.consumer.heartbeat.interval.ms": "6000",
    }
    assert broker_config(given).group_defaults == GroupConfig(
        consumer_session_timeout_ms=50_000, consumer_heartbeat_interval_ms=6000
    )


def test_the_defaults_stand_in_two_places_and_are_the_same() -> None:
    of_broker = settings_of(GroupCoordinatorConfig)
    without = set()
    for row in settings_of(GroupConfig).values():
        if row.broker_name is None:
            without.add(row.name)
            continue
        assert row.broker_name == f"group.{row.name}"
        assert of_broker[row.broker_name].default == row.default
    assert without == {
        "errors.deadletterqueue.copy.record.enable",
        "errors.deadletterqueue.topic.name",
        "ottla.share.scheduling.enable",
        "share.auto.offset.reset",
        "share.isolation.level",
        "share.renew.acknowledge.enable",
    }


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("consumer.session.timeout.ms", "44999", "min.session.timeout.ms.*45000 to 60000"),
        ("consumer.session.timeout.ms", "60001", "max.session.timeout.ms.*45000 to 60000"),
        ("consumer.heartbeat.interval.ms", "4999", "5000 to 15000"),
        ("consumer.heartbeat.interval.ms", "15001", "5000 to 15000"),
        ("share.session.timeout.ms", "44999", "group.share.min.session.*45000 to 60000"),
        ("share.record.lock.duration.ms", "60001", "15000 to 60000"),
        ("share.delivery.count.limit", "11", "2 to 10"),
        ("share.assignment.interval.ms", "15001", "0 to 15000"),
    ],
)
def test_a_value_out_of_the_brokers_bounds_is_refused(name: str, text: str, message: str) -> None:
    group = with_values(GroupConfig(), {name: text})
    with pytest.raises(SettingError, match=rf"^{name}=.*{message}") as caught:
        GroupCoordinatorConfig().check_group(group)
    assert caught.value.api_message.startswith(f"Invalid value {text} for configuration {name}: ")


def test_a_groups_heartbeat_comes_sooner_than_its_session_ends() -> None:
    coordinator = GroupCoordinatorConfig(group_consumer_min_session_timeout_ms=1)
    coordinator.check_group(GroupConfig(consumer_session_timeout_ms=5001))
    with pytest.raises(
        SettingError,
        match=r"^consumer.heartbeat.interval.ms \(5000\) must be less than "
        r"consumer.session.timeout.ms \(5000\)$",
    ):
        coordinator.check_group(GroupConfig(consumer_session_timeout_ms=5000))


def test_the_heartbeat_of_a_share_group_too() -> None:
    coordinator = GroupCoordinatorConfig(group_share_min_session_timeout_ms=1)
    with pytest.raises(SettingError, match=r"^share.heartbeat.interval.ms \(5000\) must be less"):
        coordinator.check_group(GroupConfig(share_session_timeout_ms=5000))


def test_what_was_set_under_other_bounds_is_brought_within_them() -> None:
    coordinator = GroupCoordinatorConfig(group_consumer_max_session_timeout_ms=50_000)
    wide = GroupConfig(
        consumer_session_timeout_ms=60_000,
        consumer_heartbeat_interval_ms=1,
        share_delivery_count_limit=50,
        share_auto_offset_reset="earliest",
    )
    assert coordinator.within_bounds(wide) == GroupConfig(
        consumer_session_timeout_ms=50_000,
        share_delivery_count_limit=10,
        share_auto_offset_reset="earliest",
    )
    assert coordinator.within_bounds(GroupConfig()) == GroupConfig()


def test_a_setting_that_groups_do_not_have_is_named() -> None:
    with pytest.raises(SettingError) as caught:
        with_values(GroupConfig(), {"streams.session.timeout.ms": "1"}, "group")
    assert caught.value.api_message.startswith(
        "Unknown group config name: streams.session.timeout.ms"
    )


@pytest.mark.parametrize(
    ("name", "text", "wanted"),
    [
        ("share.auto.offset.reset", "none", "must be earliest, latest, or by_duration:"),
        ("share.auto.offset.reset", "by_duration:P", "must be earliest, latest, or by_duration:"),
        ("share.auto.offset.reset", "by_duration:-PT1S", "must be earliest"),
        ("share.isolation.level", "serializable", "one of read_committed, read_uncommitted"),
        ("share.renew.acknowledge.enable", "yes", "must be true or false"),
        ("errors.deadletterqueue.topic.name", "__dead", "does not begin with __"),
    ],
)
def test_a_value_that_a_share_group_cannot_have_is_refused(
    name: str, text: str, wanted: str
) -> None:
    with pytest.raises(SettingError, match=f"^{name}={text}: .*{wanted}"):
        with_values(GroupConfig(), {name: text}, "group")


@pytest.mark.parametrize(
    ("text", "age_ms"),
    [
        ("by_duration:PT0S", 0),
        ("by_duration:P1D", 86_400_000),
        ("by_duration:P2DT3H4M5.678S", 183_845_678),
        ("by_duration:pt90m", 5_400_000),
        ("by_duration:PT0.25s", 250),
    ],
)
def test_durations_are_javas(text: str, age_ms: int) -> None:
    assert read_offset_reset(text) == OffsetReset(age_ms=age_ms)


def test_a_group_begins_at_the_end_or_at_the_beginning() -> None:
    assert read_offset_reset("latest") == OffsetReset()
    assert read_offset_reset("earliest") == OffsetReset(is_earliest=True)
