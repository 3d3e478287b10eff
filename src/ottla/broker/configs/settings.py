"""The broker's settings: those of its start, overridden by clients' changes.

Kafka's counterpart: `DynamicBrokerConfig` (KIP-226).
"""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import replace
from enum import IntEnum
from typing import NamedTuple

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError, UserError
from ottla.base.patterns import lazy_pattern
from ottla.broker.configs.cluster_file import ClusterState
from ottla.broker.configs.group_configs import GroupConfigs
from ottla.config.any_setting import setting_row, unknown_text
from ottla.config.broker import UNKNOWN_KIND, BrokerConfig, broker_config
from ottla.config.security import LISTENER_PREFIX
from ottla.config.setting import SettingError

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
    GROUP = 8


class BrokerSettings:
    """`config` is the config in effect, `groups` the overrides of groups.

    `sources` are the texts that `config` was parsed from.
    """

    def __init__(self, given: Mapping[str, str], state: ClusterState) -> None:
        self._given = given
        self._is_complete = False
        self._warned_of: set[str] = set()
        self._state = state
        self.sources: dict[ConfigSource, Mapping[str, str]] = {}
        try:
            config = self.config_under(state)
        except SettingError as error:
            raise UserError(f"a setting that a client has changed: {error}") from error
        self.follow(state, config)
        self.groups = GroupConfigs(config, state.group_configs)

    def complete(self, facts: Mapping[str, str]) -> None:
        """Adds values that were found in the directories, as if they had been given as settings."""
        self._given = {**self._given, **facts}
        self._is_complete = True
        self.config = self.config_under(self._state)
        self.follow(self._state, self.config)

    def config_under(self, state: ClusterState) -> BrokerConfig:
        """Returns the config for another state; raises `SettingError`."""
        config = broker_config({**self._given, **state.default_configs, **state.broker_configs})
        if self._is_complete:
            config.check_cordons(config.log_dirs)
        return config

    def follow(self, state: ClusterState, config: BrokerConfig) -> None:
        """Applies a state, with the config that `config_under` returned for it."""
        self._state = state
        self.config = config
        self.sources = {
            ConfigSource.BROKER: state.broker_configs,
            ConfigSource.ALL_BROKERS: state.default_configs,
            ConfigSource.STATIC: self._given,
        }
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


def configs_of(state: ClusterState, scope: ConfigSource) -> Mapping[str, str]:
    return state.broker_configs if scope is ConfigSource.BROKER else state.default_configs


def with_configs_of(
    state: ClusterState, scope: ConfigSource, values: Mapping[str, str]
) -> ClusterState:
    if scope is ConfigSource.BROKER:
        return replace(state, broker_configs=values)
    return replace(state, default_configs=values)


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
