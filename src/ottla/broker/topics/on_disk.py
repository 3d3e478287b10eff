"""The contents of the disks at a start: topics, directories, ids, settings."""

import logging
from collections.abc import Iterator, Mapping
from dataclasses import field

from ottla.base.files import FileSystem, join
from ottla.base.ids import ZERO_UUID, Uuid
from ottla.base.partitions import TopicPartition
from ottla.base.values import dataclass
from ottla.config.setting import SettingError
from ottla.config.topic import DECIDING, TopicConfig
from ottla.metadata.deciding.topic_rules import (
    FIXED_SETTINGS,
    stored_config,
    topic_config,
)
from ottla.metadata.image import NO_PARTITION, TopicImage
from ottla.storage.directory.log_directory import LogDirectory
from ottla.storage.files.filenames import PARTITION_METADATA
from ottla.storage.files.partition_metadata import is_id_with_flipped_bit, write_topic_id

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedDirectories:
    """The opened log directories, before the broker has created topics from them."""

    directories: list[LogDirectory]
    entries: Mapping[str, TopicImage]
    """The topics of the metadata log."""
    has_all_partitions: bool = True
    """Whether all partitions of a topic are here; in a cluster the controller assigns them."""
    may_be_changed: bool = True
    """Whether records may be added to the metadata log."""
    is_damaged: bool = False
    """Whether a part of the metadata log cannot be read, which may have changed any topic."""
    unknown: str = ""
    """Why the settings of a topic without an entry are not known."""
    next_producer_id: int
    cluster_id: str
    node_id: int
    refused: Mapping[TopicPartition, str] = field(default_factory=dict)
    """Why partitions are refused until a user has repaired them."""


class TopicConfigs:
    """Settings by topic, for logs that are loaded or created; `TopicStore` updates them.

    `refused` are stored settings that are not valid, or not any more, by topic and name.
    """

    def __init__(self, defaults: TopicConfig, entries: Mapping[str, TopicImage]) -> None:
        self.defaults = defaults
        self.refused: dict[str, dict[str, SettingError]] = {}
        self._configs = {name: self.stored(name, one.configs) for name, one in entries.items()}

    def stored(self, topic: str, overrides: Mapping[str, str]) -> TopicConfig:
        """Returns a topic's settings from stored ones, without those that are not valid: each is
        an error line when it is found.
        """
        config, refused = stored_config(self.defaults, overrides)
        for name, error in refused.items():
            if name not in self.refused.get(topic, {}):
                logger.error("%s", _refused_line(topic, name, error))
        self.refused.pop(topic, None)
        if refused:
            self.refused[topic] = refused
        return config

    def check_under(self, defaults: TopicConfig, topic: str, overrides: Mapping[str, str]) -> None:
        """Raises `ApiError` if other defaults contradict a topic's valid settings."""
        refused = self.refused.get(topic, {})
        valid = {name: text for name, text in overrides.items() if name not in refused}
        topic_config(defaults, valid)

    def is_held(self, topic: str) -> bool:
        """Whether it is not known which records the topic keeps, as a setting is not valid."""
        return bool(self.refused) and not DECIDING.isdisjoint(self.refused.get(topic, ()))

    def get(self, topic: str) -> TopicConfig:
        return self._configs.get(topic, self.defaults)

    def put(self, topic: str, config: TopicConfig) -> None:
        self._configs[topic] = config

    def remove(self, topic: str) -> None:
        self._configs.pop(topic, None)
        self.refused.pop(topic, None)


def _refused_line(topic: str, name: str, error: SettingError) -> str:
    until = ""
    if name in DECIDING:
        until = "nothing of the topic is deleted or compacted until then: "
    return (
        f"topic {topic}: a stored setting is not valid and is ignored: {error}; {until}set it with "
        f"`ottla configs set TARGET {topic} {name}=VALUE`, or remove it with `ottla configs unset "
        f"TARGET {topic} {name}`"
    )


def topics_on_disk(opened: OpenedDirectories) -> Iterator[TopicImage]:
    """Yields every topic of the metadata log, or with a partition on a disk.

    If the metadata log has another id than the disks, another topic of that name was created since
    (by Kafka, say), and the disks' id counts. A topic without partitions was being created when a
    crash came, or its partitions may be in an offline directory, or are refused.
    """
    found = dict(opened.entries)
    counts = {name: one.partition_count for name, one in found.items()}
    for directory in opened.directories:
        for name, index in directory.logs:
            topic_id = directory.topic_ids.get(name)
            known = found.get(name)
            if known is None or topic_id not in (None, known.topic_id):
                found[name], counts[name] = TopicImage(name, topic_id or ZERO_UUID, {}), 0
            counts[name] = max(counts[name], index + 1)
    _add_refused(found, counts, opened)
    for name, one in found.items():
        on_disk = one
        if len(one.partitions) < counts[name]:
            partitions = dict.fromkeys(range(counts[name]), NO_PARTITION) | dict(one.partitions)
            on_disk = one._replace(partitions=partitions)
        fixed = FIXED_SETTINGS.get(name)
        if fixed is not None:  # otherwise groups and transactions would be deleted
            on_disk = on_disk._replace(configs={**one.configs, **fixed})
        yield on_disk


def _add_refused(
    found: dict[str, TopicImage], counts: dict[str, int], opened: OpenedDirectories
) -> None:
    """Adds topics of which all partitions are refused, and topics that only checkpoints name.

    A directory that has a partition's name by mistake creates no topic.
    """
    named = [directory.checkpoints.named.partitions() for directory in opened.directories]
    lost = set[TopicPartition]().union(*named)
    for name, index in opened.refused:
        if (name, index) in lost:
            found.setdefault(name, TopicImage(name, ZERO_UUID, {}))
            counts[name] = max(counts.get(name, 0), index + 1)


def ensure_topic_id(
    file_system: FileSystem, directory: LogDirectory, name: str, index: int, topic_id: Uuid
) -> None:
    """Writes the topic id of a partition if a crash came between its directory and the id's file.

    Also repairs a file in which one bit is wrong. Topics of Kafka before 2.8 have no id, and get
    none.
    """
    path = join(directory.log_path(name, index), PARTITION_METADATA)
    if topic_id == ZERO_UUID:
        return
    if file_system.status(path) is not None:
        if is_id_with_flipped_bit(file_system, path, topic_id):
            directory.name_again(name, index, topic_id)
        return
    try:
        write_topic_id(file_system, path, topic_id)
    except OSError as error:
        raise directory.health.fail(error) from error
    directory.topic_ids[name] = topic_id
