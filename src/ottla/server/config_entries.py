"""Settings as CreateTopics and DescribeConfigs show them: value, source, and what it overrides.

Kafka's counterparts: `ConfigHelper`, `DescribeConfigsResponse.ConfigSource`.
"""

from dataclasses import dataclass
from enum import IntEnum

from ottla.broker.topics import Topic
from ottla.config.broker import BrokerConfig, topic_settings_by_broker_name
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
}


class Source(IntEnum):
    """Where a value comes from, by Kafka's numbers."""

    TOPIC = 1
    BROKER = 4
    DEFAULT = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Synonym:
    """One place that the value could come from."""

    name: str
    value: str
    source: Source


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigEntry:
    """A setting with its value; `synonyms` are all its sources, the one that counts first."""

    row: Setting
    name: str
    synonyms: tuple[Synonym, ...]

    @property
    def value(self) -> str:
        return self.synonyms[0].value

    @property
    def source(self) -> Source:
        return self.synonyms[0].source

    @property
    def type_code(self) -> int:
        return TYPE_CODES[self.row.kind]


def topic_entries(topic: Topic, config: BrokerConfig) -> list[ConfigEntry]:
    """Every setting of a topic, in order of name."""
    entries = []
    for name, row in sorted(settings_of(TopicConfig).items()):
        synonyms = []
        if name in topic.overrides:
            value = row.format(getattr(topic.config, row.attribute))
            synonyms.append(Synonym(name=name, value=value, source=Source.TOPIC))
        broker_name = row.broker_name or name
        default = getattr(config.topic_defaults, row.attribute)
        synonyms += _broker_synonyms(row, broker_name, row.format(default))
        entries.append(ConfigEntry(row=row, name=name, synonyms=tuple(synonyms)))
    return entries


def broker_entries(config: BrokerConfig) -> list[ConfigEntry]:
    """Every setting of the broker, those that are the defaults of topics included."""
    rows = {**settings_of(BrokerConfig), **topic_settings_by_broker_name()}
    return [
        ConfigEntry(
            row=row,
            name=name,
            synonyms=tuple(_broker_synonyms(row, name, row.format(config.value_of(name)))),
        )
        for name, row in sorted(rows.items())
    ]


def _broker_synonyms(row: Setting, name: str, value: str) -> list[Synonym]:
    default = row.format(row.default)
    synonyms = [Synonym(name=name, value=default, source=Source.DEFAULT)]
    if value != default:
        synonyms.insert(0, Synonym(name=name, value=value, source=Source.BROKER))
    return synonyms
