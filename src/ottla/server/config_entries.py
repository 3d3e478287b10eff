"""Settings as CreateTopics and DescribeConfigs show them: value, source, and what it overrides.

Kafka's counterpart: `ConfigHelper`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ottla.broker.settings import BrokerSettings, ConfigSource, setting_row
from ottla.broker.topics import Topic
from ottla.config.broker import COARSER_NAMES, broker_settings
from ottla.config.group import GroupConfig
from ottla.config.setting import Setting, settings_of
from ottla.config.topic import TopicConfig

TYPE_CODES = {
    "boolean": 1,
    "string": 2,
    "int": 3,
    "short": 4,
    "long": 5,
    "double": 6,
    "list": 7,
    "password": 9,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Synonym:
    """One place that the value could come from; the value of a secret is `None`."""

    name: str
    value: str | None
    source: ConfigSource


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigEntry:
    """A setting with its value; `synonyms` are all its sources, the one that counts first."""

    row: Setting
    name: str
    value: str | None
    synonyms: tuple[Synonym, ...]

    @property
    def source(self) -> ConfigSource:
        return self.synonyms[0].source if self.synonyms else ConfigSource.DEFAULT

    @property
    def is_sensitive(self) -> bool:
        return self.row.kind == "password"

    @property
    def type_code(self) -> int:
        return TYPE_CODES[self.row.kind]


def topic_entries(topic: Topic, settings: BrokerSettings) -> list[ConfigEntry]:
    """Every setting of a topic, in order of name."""
    return _entries(topic.config, topic.overrides, ConfigSource.TOPIC, settings)


def group_entries(group_id: str, settings: BrokerSettings) -> list[ConfigEntry]:
    """Every setting of a group, which need not exist, in order of name."""
    overrides = settings.groups.overrides.get(group_id, {})
    return _entries(settings.groups.of(group_id), overrides, ConfigSource.GROUP, settings)


def _entries(
    config: TopicConfig | GroupConfig,
    overrides: Mapping[str, str],
    source: ConfigSource,
    settings: BrokerSettings,
) -> list[ConfigEntry]:
    """The settings of what has some of its own, over the broker's."""
    entries = []
    for name, row in sorted(settings_of(type(config)).items()):
        value = row.format(getattr(config, row.attribute))
        synonyms = list(_synonyms(row.broker_name or name, row, settings))
        if name in overrides:
            synonyms.insert(0, Synonym(name=name, value=value, source=source))
        entries.append(ConfigEntry(row=row, name=name, value=value, synonyms=tuple(synonyms)))
    return entries


def broker_entries(settings: BrokerSettings) -> list[ConfigEntry]:
    """Every setting of the broker, those that are the defaults of topics included.

    Of those without effect, the ones that somebody has set.
    """
    names = set(broker_settings()).union(*settings.sources.values())
    return [_broker_entry(name, settings) for name in sorted(names)]


def all_brokers_entries(settings: BrokerSettings) -> list[ConfigEntry]:
    """What was set for all brokers of the cluster, and nothing else."""
    source = ConfigSource.ALL_BROKERS
    entries = []
    for name, value in sorted(settings.sources[source].items()):
        row = setting_row(name)
        assert row is not None, "only settings that are known can be set"
        synonyms = (Synonym(name=name, value=value, source=source),)
        entries.append(ConfigEntry(row=row, name=name, value=value, synonyms=synonyms))
    return entries


def _broker_entry(name: str, settings: BrokerSettings) -> ConfigEntry:
    row = setting_row(name)
    assert row is not None, "only settings that are known can be set"
    synonyms = tuple(_synonyms(name, row, settings))
    if name in broker_settings():
        value = settings.config.value_of(name)
        text = None if value is None else row.format(value)
    else:
        text = synonyms[0].value
    return ConfigEntry(row=row, name=name, value=text, synonyms=synonyms)


def _synonyms(name: str, row: Setting, settings: BrokerSettings) -> Iterator[Synonym]:
    """What was set for the broker under a name or a coarser one, then the default."""
    for source, values in settings.sources.items():
        for one in (name, *COARSER_NAMES.get(name, ())):
            if one in values:
                value = None if row.kind == "password" else values[one]
                yield Synonym(name=one, value=value, source=source)
    if row.default is not None:
        yield Synonym(name=name, value=row.format(row.default), source=ConfigSource.DEFAULT)
