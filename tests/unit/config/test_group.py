"""What one group may be told: Kafka's names, the broker's defaults and bounds."""

import pytest

from ottla.config.broker import broker_config
from ottla.config.group import GroupConfig
from ottla.config.group_coordinator import GroupCoordinatorConfig
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
    for row in settings_of(GroupConfig).values():
        assert row.broker_name == f"group.{row.name}"
        assert of_broker[row.broker_name].default == row.default


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("consumer.session.timeout.ms", "44999", "min.session.timeout.ms.*45000 to 60000"),
        ("consumer.session.timeout.ms", "60001", "max.session.timeout.ms.*45000 to 60000"),
        ("consumer.heartbeat.interval.ms", "4999", "5000 to 15000"),
        ("consumer.heartbeat.interval.ms", "15001", "5000 to 15000"),
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


def test_what_was_set_under_other_bounds_is_brought_within_them() -> None:
    coordinator = GroupCoordinatorConfig(group_consumer_max_session_timeout_ms=50_000)
    wide = GroupConfig(consumer_session_timeout_ms=60_000, consumer_heartbeat_interval_ms=1)
    assert coordinator.within_bounds(wide) == GroupConfig(consumer_session_timeout_ms=50_000)
    assert coordinator.within_bounds(GroupConfig()) == GroupConfig()


def test_a_setting_that_groups_do_not_have_is_named() -> None:
    with pytest.raises(SettingError) as caught:
        with_values(GroupConfig(), {"share.session.timeout.ms": "1"}, "group")
    assert caught.value.api_message.startswith(
        "Unknown group config name: share.session.timeout.ms"
    )
