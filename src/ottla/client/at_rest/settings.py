"""The settings of topics, by Ottla's own files or by what Kafka's metadata log says."""

from collections.abc import Collection, Sequence
from typing import Protocol

from ottla.base.errors import UnknownNameError
from ottla.broker.configs.settings import BrokerSettings
from ottla.client.administration.config_values import (
    ConfigEntry,
    ConfigOrigin,
    ResourceKind,
    default_of,
)
from ottla.diagnosis.directories import read_directories
from ottla.server import config_entries


class SettingsList(Protocol):
    """What describes settings: a `ConfigAdmin`, or the files of a directory."""

    def describe_configs(
        self, kind: ResourceKind, names: Collection[str]
    ) -> dict[str, dict[str, ConfigEntry]]: ...


class TopicSettingsAtRest:
    """Settings of topics of log directories; the method is that of `ConfigAdmin`."""

    def __init__(self, paths: Sequence[str]) -> None:
        """Raises `UserError` where a path is no log directory."""
        self._directories = read_directories(paths)

    def describe_configs(
        self, kind: ResourceKind, names: Collection[str]
    ) -> dict[str, dict[str, ConfigEntry]]:
        assert kind is ResourceKind.TOPIC, "others are a broker's to say"
        return {name: self._described(name) for name in names}

    def _described(self, topic: str) -> dict[str, ConfigEntry]:
        found = self._directories
        if topic not in found.topics:
            raise UnknownNameError("topic", topic, found.topics)
        entry = found.entries.get(topic)
        entries = config_entries.topic_entries(
            found.config(topic),
            {} if entry is None else entry.overrides,
            BrokerSettings({}, found.found.cluster),
        )
        return {one.name: _described(one) for one in entries}


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
