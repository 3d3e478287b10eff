"""Opening log directories as one broker, and finishing what a crash left half done.

Kafka's counterparts: `BrokerMetadataCheckpoint` at start-up, and what its controller would tell
the broker about topics that are half made or half deleted.
"""

import dataclasses
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from ottla.base.errors import ApiError, CorruptionError, UserError
from ottla.base.files import FileSystem, join
from ottla.base.ids import ZERO_UUID, Uuid, uuid_text
from ottla.broker.producer_ids import read_producer_ids
from ottla.broker.topic_file import TopicEntry, merge_entries, read_topic_file
from ottla.broker.topics import topic_config
from ottla.config.topic import TopicConfig
from ottla.storage.filenames import META_PROPERTIES, PARTITION_METADATA
from ottla.storage.log_directory import LogDirectory, OpenOptions, run_in_turn
from ottla.storage.meta_properties import MetaProperties, read_meta_properties
from ottla.storage.partition_metadata import is_id_with_flipped_bit, write_topic_id

logger = logging.getLogger(__name__)


def _ignore_progress(_: str) -> None:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerOptions:
    """What a shell hands in: time, chance, ids, and the identity for directories that are new."""

    now_ms: int
    new_id: Callable[[], Uuid]
    random_below: Callable[[int], int]
    node_id: int = 1
    is_node_id_wanted: bool = False
    cluster_id: str
    on_progress: Callable[[str], None] = field(default=_ignore_progress)
    run_all: Callable[[Sequence[Callable[[], object]]], None] = field(default=run_in_turn)

    def with_node_id(self, node_id: int | None) -> "BrokerOptions":
        """The options of a broker that must be that node, whatever its directories are."""
        if node_id is None:
            return self
        return dataclasses.replace(self, node_id=node_id, is_node_id_wanted=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedDirectories:
    """What lies on the disks, before the broker has made topics of it."""

    directories: list[LogDirectory]
    entries: dict[str, TopicEntry]
    next_producer_id: int
    cluster_id: str
    node_id: int


class TopicConfigs:
    """Settings by topic for logs as they are loaded or made; `TopicStore` keeps it up to date."""

    def __init__(self, defaults: TopicConfig, entries: Mapping[str, TopicEntry]) -> None:
        self.defaults = defaults
        self._configs = {name: self._config_of(entry) for name, entry in entries.items()}

    def _config_of(self, entry: TopicEntry) -> TopicConfig:
        try:
            return topic_config(self.defaults, entry.overrides)
        except ApiError as error:
            raise UserError(f"topic {entry.name}: {error.message}") from error

    def get(self, topic: str) -> TopicConfig:
        return self._configs.get(topic, self.defaults)

    def put(self, topic: str, config: TopicConfig) -> None:
        self._configs[topic] = config

    def remove(self, topic: str) -> None:
        self._configs.pop(topic, None)


def open_directories(
    paths: Sequence[str],
    file_system: FileSystem,
    options: BrokerOptions,
    configs: Callable[[Mapping[str, TopicEntry]], TopicConfigs],
) -> tuple[OpenedDirectories, TopicConfigs]:
    """Opens them all, or none; raises `UserError` naming the path and the mend."""
    if len(set(paths)) != len(paths) or not paths:
        raise UserError("name at least one log directory, and each only once")
    try:
        entries = merge_entries(read_topic_file(file_system, path) for path in paths)
        next_producer_id = max(read_producer_ids(file_system, path) for path in paths)
        cluster_id, node_id = _identity(paths, file_system, options)
    except CorruptionError as error:
        raise UserError(f"{error}; restore the file, or move it away") from error
    topic_configs = configs(entries)
    directories: list[LogDirectory] = []
    try:
        for path in paths:
            open_options = OpenOptions(
                now_ms=options.now_ms,
                node_id=node_id,
                cluster_id=cluster_id,
                new_id=options.new_id,
                random_below=options.random_below,
                topic_config=topic_configs.get,
                on_progress=options.on_progress,
                run_all=options.run_all,
            )
            directories.append(LogDirectory.open(path, file_system, open_options))
    except BaseException:
        for directory in directories:
            directory.close()
        raise
    opened = OpenedDirectories(
        directories=directories,
        entries=entries,
        cluster_id=cluster_id,
        node_id=node_id,
        next_producer_id=max(next_producer_id, _highest_producer_id(directories) + 1),
    )
    return opened, topic_configs


def _identity(
    paths: Sequence[str], file_system: FileSystem, options: BrokerOptions
) -> tuple[str, int]:
    """The cluster and node that the directories already belong to, or that new ones will."""
    known: MetaProperties | None = None
    for path in paths:
        file_path = join(path, META_PROPERTIES)
        if file_system.status(file_path) is None:
            continue
        properties = read_meta_properties(file_system, file_path)
        if properties is None:
            continue
        if known is None:
            known = properties
        elif (properties.cluster_id, properties.node_id) != (known.cluster_id, known.node_id):
            raise UserError(f"{path} belongs to another cluster or node than {paths[0]}")
    if known is None:
        return options.cluster_id, options.node_id
    node_id = options.node_id if known.node_id is None else known.node_id
    if options.is_node_id_wanted and node_id != options.node_id:
        raise UserError(
            f"{paths[0]} belongs to node {node_id}, but node.id is {options.node_id}; change the "
            "setting, or name another directory"
        )
    return known.cluster_id or options.cluster_id, node_id


def _highest_producer_id(directories: Sequence[LogDirectory]) -> int:
    """The largest id that any log remembers: a directory may come from Kafka, with its ids."""
    return max(
        (
            producer_id
            for directory in directories
            for log in directory.logs.values()
            for producer_id in log.producers.entries
        ),
        default=-1,
    )


def entries_on_disk(opened: OpenedDirectories) -> dict[str, TopicEntry]:
    """An entry for every topic that has a partition on a disk.

    Where the topic file knows another id than the disk, another topic of that name was made since
    (by Kafka, say): the disk is right. An entry without any partition is a creation that a crash
    cut off before it was answered: it is dropped.
    """
    found: dict[str, TopicEntry] = {}
    for directory in opened.directories:
        for topic, index in directory.logs:
            topic_id = directory.topic_ids.get(topic)
            entry = found.get(topic) or opened.entries.get(topic)
            if entry is not None and topic_id is not None and _is_one_flip(topic_id, entry):
                topic_id = entry.topic_id
            if entry is None or (topic not in found and topic_id not in (None, entry.topic_id)):
                entry = TopicEntry(
                    name=topic,
                    topic_id=topic_id or ZERO_UUID,
                    partition_count=index + 1,
                    overrides={},
                )
            elif topic_id not in (None, entry.topic_id):
                raise UserError(
                    f"{directory.log_path(topic, index)}: its topic has two ids; move away the "
                    "partition that does not belong to it"
                )
            if index >= entry.partition_count:
                entry = dataclasses.replace(entry, partition_count=index + 1)
            found[topic] = entry
    return found


def _is_one_flip(topic_id: Uuid, entry: TopicEntry) -> bool:
    """Whether an id is a topic's but for one bit of its text, as damage leaves it, not chance."""
    pairs = zip(uuid_text(topic_id), uuid_text(entry.topic_id), strict=True)
    return sum((ord(one) ^ ord(other)).bit_count() for one, other in pairs) == 1


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
