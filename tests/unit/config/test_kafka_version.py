"""Versions of Kafka in settings, and the message formats that they stand for."""

import pytest

from ottla.config.broker import broker_config
from ottla.config.kafka_version import honours_old_formats, magic_of, release_of
from ottla.config.setting import SettingError, with_values
from ottla.config.topic import TopicConfig

FORMAT = "log.message.format.version"
PROTOCOL = "inter.broker.protocol.version"


@pytest.mark.parametrize(
    ("text", "magic"),
    [
        ("0.8.0", 0), ("0.8.2.2", 0), ("0.9.0", 0), ("0.9.0.1", 0),
        ("0.10.0", 1), ("0.10.0-IV0", 1), ("0.10.2.1", 1), ("0.10.2-IV0", 1),
        ("0.11.0", 2), ("0.11.0-IV2", 2), ("1.0", 2), ("2.8", 2), ("2.8.1", 2), ("3.0-IV1", 2),
    ],
)  # fmt: skip
def test_every_version_has_the_format_it_brought(text: str, magic: int) -> None:
    assert magic_of(text) == magic


@pytest.mark.parametrize(
    "text",
    ["", "0.9", "0.7.2", "2", "2.9", "2.8-IV2", "2.8.", "0.10.0.1-IV0", "v2.8", "1.0-IV", "٣.0"],
)
def test_what_is_no_version_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a valid version"):
        release_of(text)


def test_protocols_before_3_0_honour_the_formats_of_topics() -> None:
    honoured = {text: honours_old_formats(text) for text in ("0.9.0", "2.8", "3.0-IV0", "3.9")}
    assert honoured == {"0.9.0": True, "2.8": True, "3.0-IV0": False, "3.9": False}


def test_topics_are_kept_in_v2_unless_the_broker_is_an_old_one() -> None:
    assert broker_config({}).topic_defaults.magic == 2
    ignored = broker_config({FORMAT: "0.9.0"})
    assert (ignored.topic_defaults.magic, ignored.without_effect) == (2, [FORMAT])
    honoured = broker_config({FORMAT: "0.9.0", PROTOCOL: "2.8"})
    assert (honoured.topic_defaults.magic, honoured.without_effect) == (0, [])


def test_a_topics_own_format_counts_before_the_brokers() -> None:
    defaults = broker_config({FORMAT: "0.9.0", PROTOCOL: "2.8"}).topic_defaults
    assert with_values(defaults, {"message.format.version": "0.10.1"}).magic == 1
    assert with_values(TopicConfig(), {"message.format.version": "0.10.1"}).magic == 2


def test_a_format_later_than_the_protocol_is_refused() -> None:
    with pytest.raises(SettingError, match=r"must not be later than .*=0\.10\.2"):
        broker_config({PROTOCOL: "0.10.2"})
    assert broker_config({PROTOCOL: "0.10.2", FORMAT: "0.10.0"}).topic_defaults.magic == 1


@pytest.mark.parametrize("name", [FORMAT, PROTOCOL])
def test_a_wrong_version_names_its_setting(name: str) -> None:
    with pytest.raises(SettingError, match=f"{name}=7.7: Version 7.7 is not a valid version"):
        broker_config({name: "7.7"})


def test_the_older_setting_of_times_counts_where_the_younger_are_not_given() -> None:
    config = TopicConfig(message_timestamp_difference_max_ms=5, message_timestamp_after_max_ms=7)
    assert (config.timestamp_before_max_ms, config.timestamp_after_max_ms) == (5, 7)
