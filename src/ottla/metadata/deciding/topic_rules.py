"""Valid names of topics, the internal topics, and valid settings.

These rules are separate from topics for code that reads a directory without a broker. Kafka's
counterpart: `Topic`.
"""

from collections.abc import Mapping
from functools import partial
from typing import Final

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.partitions import (
    CONSUMER_OFFSETS,
    REMOTE_LOG_METADATA,
    SHARE_GROUP_STATE,
    TRANSACTION_STATE,
)
from ottla.base.patterns import lazy_pattern
from ottla.config.setting import SettingError, with_values
from ottla.config.topic import TopicConfig
from ottla.config.usable import name_among, usable

MAX_NAME_LENGTH: Final = 249
"""With `-partition` and the suffix of a deletion, the name still fits into a file name."""

LEGAL_NAME = lazy_pattern(r"[a-zA-Z0-9._-]+")

POLICY_NAME: Final = "cleanup.policy"

FIXED_SETTINGS: Final[Mapping[str, Mapping[str, str]]] = {
    CONSUMER_OFFSETS: {POLICY_NAME: "compact"},
    TRANSACTION_STATE: {POLICY_NAME: "compact"},
    SHARE_GROUP_STATE: {POLICY_NAME: "delete", "retention.bytes": "-1", "retention.ms": "-1"},
}
"""With other values what coordinators have written would be deleted, or lost by compaction; Kafka
allows them.
"""

INTERNAL_TOPICS = frozenset(FIXED_SETTINGS)
"""Only coordinators write to them."""


def metric_name(name: str) -> str:
    """Returns the name as metrics show it; topics with the same metric name collide."""
    return name.replace(".", "_")


def check_name(name: str) -> None:
    """Raises `ApiError(INVALID_TOPIC_EXCEPTION)` for an invalid name."""
    if not name:
        reason = "is empty"
    elif name in (".", ".."):
        reason = "is '.' or '..'"
    elif len(name) > MAX_NAME_LENGTH:
        reason = f"is longer than {MAX_NAME_LENGTH} characters"
    elif LEGAL_NAME.fullmatch(name) is None:
        reason = "has characters other than ASCII letters, digits, '.', '_' and '-'"
    else:
        return
    raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"The topic's name {reason}.")


def topic_config(defaults: TopicConfig, overrides: Mapping[str, str | None]) -> TopicConfig:
    """Returns a topic's settings; raises `ApiError(INVALID_CONFIG)`."""
    values: dict[str, str] = {}
    for name, text in overrides.items():
        if text is None:
            raise ApiError(
                ErrorCode.INVALID_CONFIG, f"Null value not supported for topic configs: {name}"
            )
        values[name] = text
    try:
        return _checked(defaults, values)
    except SettingError as error:
        raise ApiError(ErrorCode.INVALID_CONFIG, error.api_message) from error


def new_topic_config(
    name: str, defaults: TopicConfig, overrides: Mapping[str, str | None]
) -> TopicConfig:
    """Returns the settings of a topic to be created; raises `ApiError(INVALID_CONFIG)`."""
    config = topic_config(defaults, overrides)
    _check_tier(name, defaults, config)
    return config


def stored_config(
    defaults: TopicConfig, overrides: Mapping[str, str]
) -> tuple[TopicConfig, dict[str, SettingError]]:
    """Returns a topic's settings from stored ones, and those that are not valid, or not any more.

    The defaults apply in their place, also where these contradict all that is stored.
    """
    try:
        return usable(overrides, partial(_checked, defaults), name_among)
    except SettingError:
        return defaults, {}


def changed_settings(
    name: str, defaults: TopicConfig, before: Mapping[str, str], after: Mapping[str, str]
) -> Mapping[str, str]:
    """Returns the settings to store; raises `ApiError(INVALID_CONFIG)` for those that a change
    makes invalid.

    Those that are stored already and not valid are ignored (`stored_config`): they may stay, so
    that others can be changed, and each can be removed.
    """
    fixed = FIXED_SETTINGS.get(name, {})
    after = {**fixed, **after}
    for one, text in fixed.items():
        if after[one] != text:
            raise ApiError(ErrorCode.INVALID_CONFIG, f"{one} of {name} must be {text}.")
    known, ignored = stored_config(defaults, before)
    config = topic_config(
        defaults,
        {one: text for one, text in after.items() if one not in ignored or before.get(one) != text},
    )
    _check_tier(name, known, config)
    return after


def _check_tier(name: str, before: TopicConfig, after: TopicConfig) -> None:
    """Raises `ApiError(INVALID_CONFIG)` if a topic's tier cannot be turned on, or off, like that.

    A topic that another broker has tiered stays so: without its tier nothing of it is lost.
    Kafka's counterpart: `LogConfig.validateRemoteStorageOnlyIfSystemEnabled` and the like.
    """
    if after.remote_storage_enable and not before.remote_storage_enable:
        if not after.has_remote_storage:
            reason = (
                "Tiered Storage functionality is disabled in the broker. Topic cannot be "
                "configured with remote log storage."
            )
        elif name in INTERNAL_TOPICS or name == REMOTE_LOG_METADATA:
            reason = f"{name} is internal, and cannot be configured with remote log storage."
        else:
            return
        raise ApiError(ErrorCode.INVALID_CONFIG, reason)
    is_off = before.remote_storage_enable and not after.remote_storage_enable
    if is_off and not after.remote_log_delete_on_disable:
        # What lies in the tier alone would be lost without a word (KIP-950).
        raise ApiError(
            ErrorCode.INVALID_CONFIG,
            "It is invalid to disable remote storage without deleting remote data. If you want to "
            "keep the remote data and turn to read only, please set "
            "`remote.storage.enable=true,remote.log.copy.disable=true`. If you want to disable "
            "remote storage and delete all remote data, please set "
            "`remote.storage.enable=false,remote.log.delete.on.disable=true`.",
        )


def _checked(defaults: TopicConfig, values: Mapping[str, str]) -> TopicConfig:
    config = with_values(defaults, values)
    config.check()
    return config
