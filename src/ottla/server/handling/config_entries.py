"""Settings as CreateTopics and DescribeConfigs show them: value, source, and what it overrides.

Kafka's counterpart: `ConfigHelper`.
"""

from collections.abc import Iterator, Mapping
from itertools import dropwhile

from ottla.base.values import dataclass
from ottla.broker.configs.settings import BrokerSettings, ConfigSource
from ottla.config.any_setting import is_sensitive, is_unknown, setting_row
from ottla.config.broker import broker_settings
from ottla.config.client_metrics import ClientMetricsConfig
from ottla.config.group import GroupConfig
from ottla.config.kafka_settings import kafka_settings
from ottla.config.setting import Setting, settings_of, with_values
from ottla.config.topic import TopicConfig

UNKNOWN_TYPE = 0
TYPE_CODES = {
    "boolean": 1,
    "string": 2,
    "int": 3,
    "short": 4,
    "long": 5,
    "double": 6,
    "list": 7,
    "class": 8,
    "password": 9,
    "logger": UNKNOWN_TYPE,
}

STRINGS = frozenset(
    {
        "advertised.listeners",
        "controller.listener.names",
        "listener.security.protocol.map",
        "listeners",
        "log.dirs",
        "max.connections.per.ip.overrides",
    }
)
"""Lists here whose type is STRING in Kafka 3.9."""

NULL_UNLESS_GIVEN = frozenset(
    {"advertised.listeners", "controller.listener.names", "log.dirs", "replica.selector.class"}
)

LISTED_WHEN_GIVEN = frozenset(
    {
        "allow.everyone.if.no.acl.found",
        "log.initial.task.delay.ms",
        "producer.id.expiration.check.interval.ms",
        "replica.alter.log.dirs.io.max.bytes.per.second",
        "super.users",
        "follower.replication.throttled.rate",
        "leader.replication.throttled.rate",
    }
)
"""Internal in Kafka, its authorizer's, or a quota: described only if set."""

FAMILIES = (
    ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
    ("log.roll.ms", "log.roll.hours"),
    ("log.roll.jitter.ms", "log.roll.jitter.hours"),
)
"""Names of one setting in finer and coarser units, in order of precedence."""

FINEST_NAMES = frozenset({*(names[0] for names in FAMILIES), "log.flush.interval.ms"})
"""Times of topics without a default: null until set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Synonym:
    """A source of the value; the value of a secret is `None`."""

    name: str
    value: str | None
    source: ConfigSource


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigEntry:
    """A setting with its value; `synonyms` are all its sources, in order of precedence."""

    row: Setting
    name: str
    value: str | None
    synonyms: tuple[Synonym, ...]
    own_source: ConfigSource | None = None
    """The source of a value that has no synonyms."""

    @property
    def source(self) -> ConfigSource:
        if self.own_source is not None:
            return self.own_source
        return self.synonyms[0].source if self.synonyms else ConfigSource.DEFAULT

    @property
    def is_sensitive(self) -> bool:
        return is_sensitive(self.row)

    @property
    def type_code(self) -> int:
        if is_unknown(self.row):
            return UNKNOWN_TYPE
        return TYPE_CODES["string" if self.name in STRINGS else self.row.kind]


def topic_entries(
    config: TopicConfig, overrides: Mapping[str, str], settings: BrokerSettings
) -> list[ConfigEntry]:
    """Every setting of a topic, by name; `overrides` are the topic's own."""
    return _entries(config, overrides, ConfigSource.TOPIC, settings)


def group_entries(group_id: str, settings: BrokerSettings) -> list[ConfigEntry]:
    """Every setting of a group, which need not exist, in order of name."""
    overrides = settings.groups.overrides.get(group_id, {})
    return _entries(settings.groups.of(group_id), overrides, ConfigSource.GROUP, settings)


def client_metrics_entries(name: str, settings: BrokerSettings) -> list[ConfigEntry]:
    """Every setting of a subscription, which need not exist, in order of name."""
    overrides = settings.client_metrics.get(name, {})
    config = with_values(ClientMetricsConfig(), overrides)
    return _entries(config, overrides, ConfigSource.CLIENT_METRICS, settings)


def logger_entries(levels: Mapping[str, str]) -> list[ConfigEntry]:
    """The level of each logger."""
    return [
        ConfigEntry(
            row=Setting(name=name, kind="logger", default=None, doc=""),
            name=name,
            value=level,
            synonyms=(),
            own_source=ConfigSource.LOGGER,
        )
        for name, level in levels.items()
    ]


def _entries(
    config: TopicConfig | GroupConfig | ClientMetricsConfig,
    overrides: Mapping[str, str],
    source: ConfigSource,
    settings: BrokerSettings,
) -> list[ConfigEntry]:
    """The settings of a resource, with its own over the broker's."""
    entries = []
    for name, row in sorted(settings_of(type(config)).items()):
        value = row.format(getattr(config, row.attribute))
        synonyms = list(_synonyms(row.broker_name, settings)) if row.broker_name else []
        if name in overrides:
            synonyms.insert(0, Synonym(name=name, value=value, source=source))
        entries.append(ConfigEntry(row=row, name=name, value=value, synonyms=tuple(synonyms)))
    return entries


def broker_entries(settings: BrokerSettings) -> list[ConfigEntry]:
    """Every setting that Kafka's or our broker lists, and others that were given."""
    listed = {*broker_settings(), *kafka_settings()} - LISTED_WHEN_GIVEN
    names = listed.union(*settings.sources.values())
    return [_broker_entry(name, settings) for name in sorted(names)]


def all_brokers_entries(settings: BrokerSettings) -> list[ConfigEntry]:
    """Only settings that were set for all brokers of the cluster."""
    source = ConfigSource.ALL_BROKERS
    entries = []
    for name, value in sorted(settings.sources[source].items()):
        row = setting_row(name)
        shown = None if is_sensitive(row) else value
        synonyms = (Synonym(name=name, value=shown, source=source),)
        entries.append(ConfigEntry(row=row, name=name, value=shown, synonyms=synonyms))
    return entries


def _broker_entry(name: str, settings: BrokerSettings) -> ConfigEntry:
    row = setting_row(name)
    synonyms = tuple(_synonyms(name, settings))
    text = synonyms[0].value if synonyms else None
    if name in broker_settings() and name not in FINEST_NAMES:
        value = settings.config.value_of(name)
        text = None if value is None else row.format(value)
    if name in NULL_UNLESS_GIVEN:
        text = text or None
    if is_sensitive(row):
        text = None
    return ConfigEntry(row=row, name=name, value=text, synonyms=synonyms)


def _synonyms(name: str, settings: BrokerSettings) -> Iterator[Synonym]:
    """The broker's values under a name or its synonyms, then the defaults.

    Values before the first one under this name are left out, as in Kafka
    (`ConfigHelper.configSynonyms`): `log.retention.ms` has no synonyms if only hours are given.
    """
    return dropwhile(lambda one: one.name != name, _all_synonyms(name, settings))


def _all_synonyms(name: str, settings: BrokerSettings) -> Iterator[Synonym]:
    family = next((names for names in FAMILIES if name in names), (name,))
    rows = {one: setting_row(one) for one in family}
    for source, values in settings.sources.items():
        for one, row in rows.items():
            if one in values:
                shown = None if is_sensitive(row) else values[one]
                yield Synonym(name=one, value=shown, source=source)
    for one, row in rows.items():
        default = row.default if one not in FINEST_NAMES else None
        if default is not None and not _is_null(one, default):
            yield Synonym(name=one, value=row.format(default), source=ConfigSource.DEFAULT)


def _is_null(name: str, default: object) -> bool:
    return name in NULL_UNLESS_GIVEN and default in ((), "")
