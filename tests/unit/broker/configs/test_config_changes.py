"""Changes of settings, one by one and all at once."""

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.broker.configs.config_changes import Alteration, ConfigChange, ConfigOperation
from ottla.config.setting import settings_of
from ottla.config.topic import TopicConfig

ROWS = settings_of(TopicConfig)
CURRENT = {"retention.ms": "5", "cleanup.policy": "compact"}


def change(name: str, operation: ConfigOperation, value: str = "") -> ConfigChange:
    return ConfigChange(name=name, operation=operation, value=value)


def changed(*changes: ConfigChange, is_whole: bool = False) -> dict[str, str]:
    return Alteration(changes=changes, is_whole=is_whole).apply(CURRENT, ROWS)


def test_settings_are_set_and_deleted_and_the_others_stay() -> None:
    assert changed(
        change("segment.bytes", ConfigOperation.SET, "100"),
        change("retention.ms", ConfigOperation.DELETE),
        change("flush.ms", ConfigOperation.DELETE),
    ) == {"segment.bytes": "100", "cleanup.policy": "compact"}


def test_a_whole_alteration_keeps_only_what_it_names() -> None:
    values = changed(change("retention.ms", ConfigOperation.SET, "7"), is_whole=True)
    assert values == {"retention.ms": "7"}


@pytest.mark.parametrize(
    ("operation", "value", "expected"),
    [
        (ConfigOperation.APPEND, "delete", "compact,delete"),
        (ConfigOperation.APPEND, "compact", "compact"),
        (ConfigOperation.APPEND, "delete,compact,delete", "compact,delete"),
        (ConfigOperation.SUBTRACT, "compact", ""),
        (ConfigOperation.SUBTRACT, "delete", "compact"),
    ],
)
def test_lists_are_added_to_and_taken_from(
    operation: ConfigOperation, value: str, expected: str
) -> None:
    assert changed(change("cleanup.policy", operation, value))["cleanup.policy"] == expected


def test_a_list_that_was_never_set_starts_from_its_default() -> None:
    alteration = Alteration(changes=[change("cleanup.policy", ConfigOperation.APPEND, "compact")])
    assert alteration.apply({}, ROWS) == {"cleanup.policy": "delete,compact"}


@pytest.mark.parametrize("name", ["retention.ms", "no.such"])
def test_only_lists_can_be_added_to(name: str) -> None:
    with pytest.raises(ApiError, match=f"Can't APPEND to key {name}") as caught:
        changed(change(name, ConfigOperation.APPEND, "1"))
    assert caught.value.code is ErrorCode.INVALID_CONFIG
