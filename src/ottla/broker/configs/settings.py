"""The broker's settings: those of its start, overridden by clients' changes.

Kafka's counterpart: `DynamicBrokerConfig` (KIP-226).
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from enum import IntEnum
from typing import NamedTuple

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.patterns import lazy_pattern
from ottla.base.resource_kinds import ResourceKind
from ottla.broker.configs.group_configs import GroupConfigs
from ottla.config.any_setting import setting_row, unknown_text
from ottla.config.broker import (
    UNKNOWN_KIND,
    BrokerConfig,
    broker_config,
    topic_settings_by_broker_name,
)
from ottla.config.listeners import client_listeners
from ottla.config.security import LISTENER_PREFIX
from ottla.config.setting import SettingError
from ottla.config.topic import DECIDING
from ottla.config.usable import usable
from ottla.metadata.image import ALL_BROKERS, Configs, MetadataImage

logger = logging.getLogger(__name__)


class ConfigSource(IntEnum):
    """The origin of a value, by Kafka's numbers.

    A topic's or group's own value has precedence, then the lowest number.
    """

    TOPIC = 1
    BROKER = 2
    ALL_BROKERS = 3
    STATIC = 4
    DEFAULT = 5
    LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


Stored = Mapping[ConfigSource, Configs]
"""The values that are stored for all brokers, and for this one."""


def stored_configs(image: MetadataImage, node_id: int) -> Stored:
    return {
        ConfigSource.ALL_BROKERS: image.configs_of(ResourceKind.BROKER, ALL_BROKERS),
        ConfigSource.BROKER: image.configs_of(ResourceKind.BROKER, str(node_id)),
    }


class BrokerSettings:
    """`config` is the config in effect, `groups` the overrides of groups, and
    `client_metrics` the subscriptions to clients' metrics.

    `sources` are the texts that `config` was parsed from. `ignored` are stored values that are not
    valid, or not any more, with the reasons: the broker starts without them, as Kafka's does.
    """

    def __init__(self, given: Configs, image: MetadataImage, node_id: int) -> None:
        self._given = given
        self._is_complete = False
        self._warned_of: set[str] = set()
        self._check: Callable[[BrokerConfig], None] | None = None
        self._stored = stored_configs(image, node_id)
        self.sources: dict[ConfigSource, Mapping[str, str]] = {}
        self.ignored: dict[ScopedSetting, SettingError] = {}
        config = self._usable_config(self._stored)
        self.follow(self._stored, config)
        self.groups = GroupConfigs(config, image.configs.get(ResourceKind.GROUP, {}))
        self.client_metrics = image.configs.get(ResourceKind.CLIENT_METRICS, {})

    def complete(self, facts: Mapping[str, str]) -> None:
        """Adds values that were found in the directories, as if they had been given as settings."""
        self._given = {**self._given, **facts}
        self._is_complete = True
        self.config = self._usable_config(self._stored)
        self.follow(self._stored, self.config)

    def config_under(self, stored: Stored) -> BrokerConfig:
        """Returns the config for other stored values; raises `SettingError`, but not for values
        that are ignored.
        """
        return self._built(dict.fromkeys(self._in_effect(stored), ""))

    def check_with(self, check: Callable[[BrokerConfig], None] | None) -> None:
        """Sets a check of keys and certificates that runs before settings are applied."""
        self._check = check

    def check(self, config: BrokerConfig) -> None:
        """Raises `SettingError` for settings that the server could not apply."""
        if self._check is not None:
            self._check(config)

    @property
    def ignored_topic_settings(self) -> dict[str, str]:
        """The settings of topics whose defaults are ignored, with the reasons."""
        rows = topic_settings_by_broker_name() if self.ignored else {}
        return {
            rows[one.name].name: str(error)
            for one, error in self.ignored.items()
            if one.name in rows
        }

    def _usable_config(self, stored: Stored) -> BrokerConfig:
        values = dict.fromkeys(_scoped(stored), "")
        config, ignored = usable(values, self._built, _scoped_of)
        for one, error in ignored.items():
            if one not in self.ignored:
                logger.error("%s", _ignored_line(one, error))
        self.ignored = ignored
        return config

    def _in_effect(self, stored: Stored) -> list["ScopedSetting"]:
        return [one for one in _scoped(stored) if one not in self.ignored]

    def _built(self, stored: Mapping["ScopedSetting", str]) -> BrokerConfig:
        """`stored` are values of all brokers before those of one."""
        values = {one.name: one.value for one in stored}
        config = broker_config({**self._given, **values})
        if self._is_complete:
            config.check_cordons(config.log_dirs)
        if any(one in PER_BROKER or one.startswith(LISTENER_PREFIX) for one in values):
            client_listeners(config)
        return config

    def follow(self, stored: Stored, config: BrokerConfig) -> None:
        """Applies stored values, with the config that `config_under` returned for them."""
        self._stored = stored
        self.config = config
        left = _scoped(stored)
        self.ignored = {one: why for one, why in self.ignored.items() if one in left}
        self.sources = {ConfigSource.BROKER: {}, ConfigSource.ALL_BROKERS: {}}
        for scope in self.sources:
            in_effect = (one for one in self._in_effect(stored) if one.scope is scope)
            self.sources[scope] = {one.name: one.value for one in in_effect}
        self.sources[ConfigSource.STATIC] = self._given
        if self._is_complete:
            self._warn_of_unknown()

    def _warn_of_unknown(self) -> None:
        """Warns once of each setting that a broker accepts without knowing it."""
        new = [name for name in self.config.unknown if name not in self._warned_of]
        if new:
            logger.warning("settings that are not known and have no effect: %s", unknown_text(new))
            self._warned_of.update(new)


def passwords_among(names: Iterable[str]) -> list[str]:
    """The settings whose values must never be shown."""
    return sorted(name for name in names if setting_row(name).kind == "password")


PER_BROKER = frozenset(
    {"advertised.listeners", "listener.security.protocol.map", "listeners", "log.dirs"}
)
"""Settings that must differ between brokers; settings of one listener must too."""

STORES = lazy_pattern(r"ssl\.(key|(key|trust)store\.)")
"""Locations of keys and certificates: can be changed for one listener only, as in Kafka."""


class ScopedSetting(NamedTuple):
    """A setting of all brokers, or of one."""

    scope: ConfigSource
    name: str
    value: str


def _scoped(stored: Stored) -> list[ScopedSetting]:
    """The stored values: those of all brokers, and then those of this one."""
    return [
        ScopedSetting(scope, name, text)
        for scope in (ConfigSource.ALL_BROKERS, ConfigSource.BROKER)
        for name, text in stored.get(scope, {}).items()
    ]


def _scoped_of(name: str, stored: Mapping[ScopedSetting, str]) -> ScopedSetting | None:
    """The value of a setting that applies."""
    return next((one for one in reversed(list(stored)) if one.name == name), None)


def _ignored_line(one: ScopedSetting, error: SettingError) -> str:
    is_own = one.scope is ConfigSource.BROKER
    row = topic_settings_by_broker_name().get(one.name)
    until = ""
    if row is not None and row.name in DECIDING:
        until = "until then nothing is deleted or compacted in topics without their own value: "
    whose, option = ("this broker", "--broker ID") if is_own else ("all brokers", "--brokers")
    place = f"TARGET {option} {one.name}"
    return (
        f"a stored setting of {whose} is not valid and is ignored: {error}; {until}set it with "
        f"`ottla configs set {place}=VALUE`, or remove it with `ottla configs unset {place}`"
    )


def check_dynamic(values: Mapping[str, str], scope: ConfigSource) -> None:
    """Raises `ApiError` unless all settings can be changed at run time in this scope."""
    rows = map(setting_row, values)
    fixed = sorted(row.name for row in rows if not (row.is_dynamic or row.kind == UNKNOWN_KIND))
    if fixed:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            f"Cannot update these configs dynamically: [{', '.join(fixed)}]",
        )
    for_all = sorted(name for name in values if STORES.match(name))
    if for_all:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            "These security configs can be dynamically updated only per-listener using the "
            f"listener prefix: [{', '.join(for_all)}]",
        )
    own = [
        name for name in sorted(values) if name in PER_BROKER or name.startswith(LISTENER_PREFIX)
    ]
    if own and scope is ConfigSource.ALL_BROKERS:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            f"Cannot update these configs at default cluster level: [{', '.join(own)}]",
        )
