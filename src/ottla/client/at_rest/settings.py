"""Settings of topics, groups and the broker, from Ottla's files or Kafka's metadata log."""

from collections.abc import Collection, Sequence
from typing import Protocol

from ottla.base.errors import UnknownNameError, UserError
from ottla.broker.configs.resources import check_group_name
from ottla.broker.configs.settings import BrokerSettings
from ottla.client.administration.config_values import (
    ALL_BROKERS,
    ConfigEntry,
    ConfigOrigin,
    ResourceKind,
    default_of,
    no_loggers,
)
from ottla.client.at_rest.known import check_known, check_topic_known
from ottla.client.refusals import refusals
from ottla.diagnosis.directories import read_directories
from ottla.server import config_entries


class SettingsList(Protocol):
    """Describes settings: a `ConfigAdmin`, or the files of a directory."""

    def describe_configs(
        self, kind: ResourceKind, names: Collection[str]
    ) -> dict[str, dict[str, ConfigEntry]]: ...


class SettingsAtRest:
    """Settings stored in log directories; the method is that of `ConfigAdmin`. Settings from a
    broker's start are in no directory, and are treated as not given.
    """

    def __init__(self, paths: Sequence[str]) -> None:
        """Raises `UserError` if a path is not a log directory."""
        self._directories = read_directories(paths)
        self._node_id = self._directories.opened[0].node_id
        self._settings = BrokerSettings(
            {
                "broker.id": str(self._node_id),
                "node.id": str(self._node_id),
                "log.dirs": ",".join(paths),
            },
            self._directories.found.image,
            self._node_id,
        )

    def describe_configs(
        self, kind: ResourceKind, names: Collection[str]
    ) -> dict[str, dict[str, ConfigEntry]]:
        return {
            name: {one.name: _described(one) for one in self._entries(kind, name)} for name in names
        }

    def _entries(self, kind: ResourceKind, name: str) -> list[config_entries.ConfigEntry]:
        if kind is not ResourceKind.TOPIC:
            check_known(self._directories, "settings of brokers and groups")
        match kind:
            case ResourceKind.TOPIC:
                return self._of_topic(name)
            case ResourceKind.GROUP:
                with refusals(f"group {name}"):
                    check_group_name(name)
                return config_entries.group_entries(name, self._settings)
            case ResourceKind.CLIENT_METRICS:
                return config_entries.client_metrics_entries(name, self._settings)
            case ResourceKind.BROKER_LOGGER:
                raise no_loggers()
            case ResourceKind.BROKER if name == ALL_BROKERS:
                return config_entries.all_brokers_entries(self._settings)
            case ResourceKind.BROKER:
                if name != str(self._node_id):
                    raise UserError(f"there is no broker {name}; there are {self._node_id}")
                return config_entries.broker_entries(self._settings)

    def _of_topic(self, topic: str) -> list[config_entries.ConfigEntry]:
        found = self._directories
        if topic not in found.topics:
            raise UnknownNameError("topic", topic, found.topics)
        check_topic_known(found, topic)
        entry = found.entries.get(topic)
        overrides = {} if entry is None else entry.overrides
        return config_entries.topic_entries(found.config(topic), overrides, self._settings)


def _described(one: config_entries.ConfigEntry) -> ConfigEntry:
    origin = ConfigOrigin(one.source.value)
    synonyms = [(each.value, each.source.value) for each in one.synonyms]
    return ConfigEntry(
        name=one.name,
        value=None if one.is_sensitive else one.value,
        origin=origin,
        default=default_of(one.name, one.value, origin, synonyms),
        is_read_only=not one.row.is_dynamic,
        is_sensitive=one.is_sensitive,
        documentation=one.row.doc,
    )
