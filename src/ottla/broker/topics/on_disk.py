"""What lies on the disks before there are topics of it: entries, directories, ids, settings."""

import dataclasses
from collections.abc import Mapping
from dataclasses import field

from ottla.base.errors import ApiError, UserError
from ottla.base.files import FileSystem, join
from ottla.base.ids import ZERO_UUID, Uuid
from ottla.base.partitions import TopicPartition
from ottla.base.values import dataclass
from ottla.broker.topics.topic_rules import INTERNAL_TOPICS, topic_config
from ottla.broker.topics.topics import POLICY_NAME
from ottla.config.topic import TopicConfig
from ottla.storage.directory.log_directory import LogDirectory
from ottla.storage.files.filenames import PARTITION_METADATA
from ottla.storage.files.partition_metadata import is_id_with_flipped_bit, write_topic_id
from ottla.storage.files.topic_file import TOPIC_FILE_NAME, TopicEntry


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedDirectories:
    """What lies on the disks, before the broker has made topics of it."""

    directories: list[LogDirectory]
    entries: Mapping[str, TopicEntry]
    gone: frozenset[Uuid]
    """The ids of topics that were deleted while one of the directories was away."""
    next_producer_id: int
    cluster_id: str
    node_id: int
    refused: Mapping[TopicPartition, str] = field(default_factory=dict)
    """Why partitions are neither served nor rebuilt until a person has put things right."""


class TopicConfigs:
    """Settings by topic for logs as they are loaded or made; `TopicStore` keeps it up to date."""

    def __init__(self, defaults: TopicConfig, entries: Mapping[str, TopicEntry]) -> None:
        self.defaults = defaults
        self._configs = {name: self._config_of(entry) for name, entry in entries.items()}

    def _config_of(self, entry: TopicEntry) -> TopicConfig:
        try:
            return topic_config(self.defaults, entry.overrides)
        except ApiError as error:
            reason = f"{TOPIC_FILE_NAME}: topic {entry.name}: {error.message}"
            raise UserError(reason) from error

    def get(self, topic: str) -> TopicConfig:
        return self._configs.get(topic, self.defaults)

    def put(self, topic: str, config: TopicConfig) -> None:
        self._configs[topic] = config

    def remove(self, topic: str) -> None:
        self._configs.pop(topic, None)


def entries_on_disk(opened: OpenedDirectories) -> dict[str, TopicEntry]:
    """An entry for every topic that has a partition on a disk.

    Where the topic file knows another id than the disks, another topic of that name was made since
    (by Kafka, say): the disks are right. An entry without any partition is a creation that a crash
    cut off before it was answered: it is dropped, unless its partitions may lie in a directory
    that is away, or are refused.
    """
    found: dict[str, TopicEntry] = {}
    if any(directory.is_offline for directory in opened.directories):
        found.update(opened.entries)
    for directory in opened.directories:
        for topic, index in directory.logs:
            topic_id = directory.topic_ids.get(topic)
            entry = found.get(topic) or opened.entries.get(topic)
            if entry is None or topic_id not in (None, entry.topic_id):
                entry = TopicEntry(
                    name=topic,
                    topic_id=topic_id or ZERO_UUID,
                    partition_count=index + 1,
                    overrides={},
                )
            if index >= entry.partition_count:
                entry = dataclasses.replace(entry, partition_count=index + 1)
            if topic in INTERNAL_TOPICS:
                # As Kafka's coordinators make them: under any other policy groups and transactions
                # are forgotten.
                overrides = {**entry.overrides, POLICY_NAME: "compact"}
                entry = dataclasses.replace(entry, overrides=overrides)
            found[topic] = entry
    _add_refused(found, opened)
    return found


def _add_refused(found: dict[str, TopicEntry], opened: OpenedDirectories) -> None:
    """Topics of which all partitions are refused stay, and those that only checkpoints know.

    A directory that has the name of a partition by mistake makes no topic of that name.
    """
    named = [directory.checkpoints.named.partitions() for directory in opened.directories]
    lost = set[TopicPartition]().union(*named)
    for topic, index in opened.refused:
        entry = found.get(topic) or opened.entries.get(topic)
        if entry is None and (topic, index) in lost:
            entry = TopicEntry(name=topic, topic_id=ZERO_UUID, partition_count=0, overrides={})
        if entry is None or (topic not in found and index >= entry.partition_count > 0):
            continue
        if (topic, index) in lost and index >= entry.partition_count:
            entry = dataclasses.replace(entry, partition_count=index + 1)
        found[topic] = entry


def ensure_topic_id(
    file_system: FileSystem, directory: LogDirectory, name: str, index: int, topic_id: Uuid
) -> None:
    """Writes the id that a partition lacks when a crash came between its directory and its file.

    Also where one bit of the file is wrong. Topics of Kafka before 2.8 have none, and keep none.
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
