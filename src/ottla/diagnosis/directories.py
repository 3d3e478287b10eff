"""The log directories of one broker, opened for reading, with the known settings.

A directory has the settings of topics if Ottla's broker wrote it, or if Kafka's metadata log is in
it; the broker's `server.properties` is in neither. So each result says where its settings come
from.
"""

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING

from ottla.base.errors import CorruptionError, UnknownNameError
from ottla.base.files import FileSystem, OsFileSystem
from ottla.base.values import dataclass
from ottla.broker.adoption.found_metadata import FoundMetadata, find_metadata
from ottla.broker.configs.settings import BrokerSettings
from ottla.config.broker import BrokerConfig, broker_config
from ottla.config.setting import with_values
from ottla.config.topic import DECIDING, TopicConfig
from ottla.metadata.deciding.topic_rules import stored_config
from ottla.metadata.image import TopicImage
from ottla.storage.files.filenames import CLUSTER_METADATA
from ottla.storage.files.known_topics import known_topics_of
from ottla.storage.files.meta_properties import properties_of
from ottla.storage.reading.locating import holders_of
from ottla.storage.reading.read_only_directory import ReadOnlyLogDirectory, open_for_reading
from ottla.storage.reading.read_only_log import ReadOnlyLog

if TYPE_CHECKING:
    from ottla.storage.reading.remote_part import RemotePart, RemoteRecords


@dataclass(frozen=True, slots=True, kw_only=True)
class Directories:
    """The log directories of one broker.

    `given` are settings of topics that the user has passed; they take precedence.
    """

    opened: list[ReadOnlyLogDirectory]
    file_system: FileSystem
    broker: BrokerConfig
    has_properties: bool
    found: FoundMetadata
    """The settings in the directories, also those written by Apache Kafka."""
    topic_settings: Callable[[str], Mapping[str, str]] | None = None
    """Returns all settings of a topic, if a running broker was asked."""
    given: Mapping[str, str] = field(default_factory=dict)
    tiers: list["RemoteRecords"] = field(default_factory=list)
    """What was read of the records about a tier; filled by `remote_records`."""
    configs: dict[str, TopicConfig] = field(default_factory=dict)
    """The settings of topics, each asked for once; filled by `config`."""

    def remote_part(self, log: ReadOnlyLog) -> "RemotePart | None":
        """What is in the tier of a log of these directories; `None` for a topic without a tier."""
        if not self.config(log.topic).remote_storage_enable:
            return None
        return self.remote_records.part_of(log)

    @property
    def remote_records(self) -> "RemoteRecords":
        """The records about tiers, which are read once."""
        # Imported here: few logs have a tier.
        from ottla.storage.reading.remote_part import RemoteRecords

        if not self.tiers:
            self.tiers.append(RemoteRecords(self.opened))
        return self.tiers[0]

    def highest_remote_offset(self, log: ReadOnlyLog) -> int:
        """The last offset up to which the tier has a log; -1 if it has nothing, or is none."""
        part = self.remote_part(log)
        return -1 if part is None else part.highest_offset

    @property
    def entries(self) -> Mapping[str, TopicImage]:
        return self.found.known.entries

    @property
    def unknown(self) -> dict[str, str]:
        """The topics with unknown settings, which are not deleted or compacted, with the reason."""
        reasons = {topic: self._why_held(topic) for topic in self.topics}
        return {topic: reason for topic, reason in reasons.items() if reason is not None}

    def _why_held(self, topic: str) -> str | None:
        reason = self.found.why_unknown(topic, None)
        if reason is None and topic in self.entries:
            _, refused = stored_config(self.broker.topic_defaults, self.entries[topic].configs)
            return next((str(refused[one]) for one in sorted(DECIDING & refused.keys())), None)
        return reason

    @property
    def topics(self) -> list[str]:
        here = {topic for one in self.opened for topic in one.topics()}
        return sorted(here.union(*(one.lost_topics(here) for one in self.opened)))

    def logs(self, topic: str) -> list[ReadOnlyLog]:
        """The logs of a topic's partitions in order, from each directory that has one.

        Raises `UserError` for a lost partition, and `UnknownNameError` for an unknown topic.
        """
        if topic not in (topics := self.topics):
            where = ", ".join(one.path for one in self.opened)
            raise UnknownNameError("topic", topic, topics, where)
        held = holders_of(self.opened, lambda name, _: name == topic).get(topic, {})
        return [one.partition(topic, index) for index in sorted(held) for one in held[index]]

    def config(self, topic: str) -> TopicConfig:
        """A topic's settings, with defaults for those that are unknown or not valid."""
        if topic not in self.configs:
            self.configs[topic] = self._config(topic)
        return self.configs[topic]

    def _config(self, topic: str) -> TopicConfig:
        if self.topic_settings is not None:
            config = with_values(TopicConfig(), self.topic_settings(topic))
        else:
            entry = self.entries.get(topic)
            overrides = {} if entry is None else dict(entry.configs)
            config, _ = stored_config(self.broker.topic_defaults, overrides)
        return with_values(config, self.given)

    @property
    def are_settings_known(self) -> bool:
        """Whether the broker's settings are known, which are the defaults of topics."""
        return self.topic_settings is not None or self.has_properties

    def known_settings(self, topic: str) -> Container[str] | None:
        """The names of a topic's settings that are not assumed defaults; `None` means all."""
        if self.are_settings_known:
            return None
        entry = self.entries.get(topic)
        return {*self.given, *(() if entry is None else entry.configs)}

    @property
    def settings_source(self) -> str:
        """Where the settings come from, as text."""
        if self.topic_settings is not None:
            return "the running broker"
        parts = [f"the metadata log ({CLUSTER_METADATA})"] if self.found.log else []
        parts += ["the given server.properties"] if self.has_properties else []
        parts += [] if self.has_properties else ["Kafka's defaults (--config adds a server's own)"]
        return ", ".join(parts)


def read_directories(
    paths: Sequence[str],
    *,
    properties: Mapping[str, str] | None = None,
    given: Mapping[str, str] | None = None,
) -> Directories:
    """Opens directories for reading; raises `UserError`.

    `properties` is the content of the broker's `server.properties`, if the user has named it.
    """
    file_system = OsFileSystem()
    opened = [open_for_reading(path, file_system) for path in paths]
    sizes = {one.path: one.metadata_sizes() for one in opened}
    found = find_metadata(paths, file_system)
    tiered = {name for name in found.known.entries if found.known.is_tiered(name)}
    for one in opened:
        one.tiered_topics = tiered
        if one.path == found.path:  # so that the log is read once
            one.take_topics(known_topics_of(found.image), sizes[one.path])
    settings = BrokerSettings(properties or {}, found.image, found.node_id)
    return Directories(
        opened=opened,
        file_system=file_system,
        broker=settings.config,
        found=found,
        has_properties=properties is not None,
        given=given or {},
    )


def with_broker(
    directories: Directories,
    topic_settings: Callable[[str], Mapping[str, str]],
    own: Mapping[str, str],
) -> Directories:
    """The directories with the settings that the running broker reports."""
    broker = described_config(own)
    return replace(directories, topic_settings=topic_settings, broker=broker, configs={})


def described_config(own: Mapping[str, str]) -> BrokerConfig:
    """The settings that a running broker reports, defaults included."""
    known = {name: text for name, text in own.items() if text}
    if "inter.broker.listener.name" in known:
        # Only one of the two may be set; the other value is the default.
        known.pop("security.inter.broker.protocol", None)
    return broker_config(known)


def are_local(paths: Iterable[str], cluster_id: str) -> bool:
    """Whether directories that a broker reports are on this machine, and of its cluster."""
    return all(_cluster_of(path) == cluster_id for path in paths)


def _cluster_of(path: str) -> str | None:
    try:
        properties = properties_of(OsFileSystem(), path)
    except (OSError, CorruptionError):
        return None
    return None if properties is None else properties.cluster_id
