"""The settings of each group: the defaults, overridden by what clients changed for the group.

Kafka's counterpart: `GroupConfigManager` (KIP-848).
"""

import logging
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.config.group import GroupConfig
from ottla.config.group_coordinator import GroupCoordinatorConfig
from ottla.config.setting import SettingError, settings_of, with_values
from ottla.config.usable import name_among, usable

logger = logging.getLogger(__name__)

MOST_KEPT: Final = 1000
"""Different settings of groups that are not parsed again."""


NOTHING: Final[Mapping[str, str]] = MappingProxyType({})


class GroupConfigs:
    """`overrides` are the texts that clients have set, by group."""

    def __init__(
        self, coordinator: GroupCoordinatorConfig, overrides: Mapping[str, Mapping[str, str]]
    ) -> None:
        """Ignores invalid settings, with an error line; values out of bounds are limited, with a
        warning.
        """
        self._coordinator = coordinator
        self._defaults = coordinator.group_defaults
        self.overrides = dict(overrides)
        self._sound: dict[frozenset[tuple[str, str]], GroupConfig] = {}
        """The configs of settings about which there is nothing to say: thousands of groups have one
        of a few, and to parse each takes 40 µs."""
        self._configs = {
            group_id: self._restore(group_id, values) for group_id, values in overrides.items()
        }

    def of(self, group_id: str) -> GroupConfig:
        """The settings of a group, which need not exist."""
        return self._configs.get(group_id, self._defaults)

    def check(self, values: Mapping[str, str], before: Mapping[str, str] = NOTHING) -> None:
        """Raises `ApiError(INVALID_CONFIG)` for settings that no group may have, unless they are
        stored `before` already, and ignored.
        """
        try:
            _, ignored = usable(before, self._bounded, name_among)
            self._bounded(
                {
                    name: text
                    for name, text in values.items()
                    if name not in ignored or before.get(name) != text
                }
            )
        except SettingError as error:
            raise ApiError(ErrorCode.INVALID_CONFIG, error.api_message) from error

    def change(self, group_id: str, values: Mapping[str, str]) -> None:
        """Replaces a group's settings, which `check` has accepted."""
        if values:
            self.overrides[group_id] = values
            self._configs[group_id] = self._restore(group_id, values)
        else:
            self.overrides.pop(group_id, None)
            self._configs.pop(group_id, None)

    def _bounded(self, values: Mapping[str, str]) -> GroupConfig:
        config = self._with(values)
        self._coordinator.check_group(config)
        return config

    def _with(self, values: Mapping[str, str]) -> GroupConfig:
        return with_values(self._defaults, values, "group")

    def _restore(self, group_id: str, values: Mapping[str, str]) -> GroupConfig:
        """Limits settings to the current bounds, which may have changed since they were set."""
        key = frozenset(values.items())
        known = self._sound.get(key)
        if known is not None:
            return known
        wanted, refused = usable(values, self._with, name_among)
        for name, error in refused.items():
            logger.error(
                "a stored setting of group %s is not valid and is ignored: %s; set it with `ottla "
                "configs set TARGET --group %s %s=VALUE`, or remove it with `ottla configs unset`",
                group_id, error, group_id, name,
            )  # fmt: skip
        config = self._coordinator.within_bounds(wanted)
        for name, row in settings_of(GroupConfig).items():
            old, new = getattr(wanted, row.attribute), getattr(config, row.attribute)
            if old != new:
                logger.warning(
                    "group %s: %s=%d is out of the broker's bounds; %d applies",
                    group_id,
                    name,
                    old,
                    new,
                )
        try:
            self._coordinator.check_group(config)
        except SettingError as error:
            logger.warning("group %s: %s", group_id, error)
            return config
        if not refused and config == wanted and len(self._sound) < MOST_KEPT:
            self._sound[key] = config
        return config
