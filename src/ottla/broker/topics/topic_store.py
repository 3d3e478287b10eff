"""The topics on disk: loads, creates, extends, configures and deletes them, as the image has them.

The metadata log has a change before the first partition is changed, so that after a crash the next
start completes it.

Kafka's counterparts: `ReplicaManager.applyDelta`, `LogManager`.
"""

import contextlib
import logging
from collections.abc import Iterable, Mapping, Sequence

from ottla.base.errors import StorageError, UserError
from ottla.base.files import FileSystem
from ottla.base.partitions import TopicPartition
from ottla.base.turns import in_turns, kept
from ottla.broker.topics.on_disk import (
    OpenedDirectories,
    TopicConfigs,
    ensure_topic_id,
    topics_on_disk,
)
from ottla.broker.topics.partition import Partition
from ottla.broker.topics.partition_logs import PartitionLogs
from ottla.broker.topics.removals import Removals
from ottla.broker.topics.topics import Topic, Topics
from ottla.broker.topics.unconfirmed import Unconfirmed
from ottla.config.topic import DECIDING, TopicConfig
from ottla.metadata.image import HasImage, TopicImage
from ottla.storage.directory.log_directories import LogDirectories
from ottla.storage.directory.log_directory import LogDirectory

logger = logging.getLogger(__name__)

FORMAT_NAME = "message.format.version"


class TopicStore:
    """Keeps `topics` and the disks consistent; changes raise `StorageError`."""

    def __init__(
        self,
        directories: LogDirectories,
        file_system: FileSystem,
        configs: TopicConfigs,
        removals: Removals,
        known: HasImage,
        unconfirmed: Unconfirmed,
    ) -> None:
        self.topics = Topics()
        self.removals = removals
        self.directories = directories
        self._file_system = file_system
        self.configs = configs
        self._known = known
        self.unconfirmed = unconfirmed
        self.logs = PartitionLogs(directories, removals)

    def load(self, opened: OpenedDirectories) -> None:
        """Creates the topics from the disks, and completes what a crash interrupted."""
        self.logs.refused = {**opened.refused}
        for image in topics_on_disk(opened):
            config = self.configs.stored(image.name, image.configs)
            self.configs.put(image.name, config)
            self._check_id_is_free(image)
            self.topics.add(Topic(image, config))
        for directory in self.directories:
            self._take_directory(directory)
        for topic in list(self.topics):
            topic.offline_indexes = self._not_at_hand(
                topic, has_all_partitions=opened.has_all_partitions
            )
            if self.directories.is_complete:
                _warn_of_format(topic)
                if opened.has_all_partitions:
                    self._complete(topic)

    def _not_at_hand(self, topic: Topic, *, has_all_partitions: bool) -> dict[int, str]:
        """Returns why partitions are offline: in an offline directory, or refused."""
        missing = [one for one in range(topic.partition_count) if one not in topic.partitions]
        refused = {one: self.logs.refused.get(TopicPartition(topic.name, one)) for one in missing}
        is_away = has_all_partitions and not self.directories.is_complete
        away = "a log directory is offline" if is_away else None
        return {index: why for index, one in refused.items() if (why := one or away)}

    def _complete(self, topic: Topic) -> None:
        """Creates missing partitions, after a crash during a creation or extension."""
        due = topic.partition_count - len(topic.known_indexes)
        if due:
            logger.warning(
                "%d of the %d partitions of topic %s are not there and were in no checkpoint: they "
                "are made, as after a crash that came before they were",
                due, topic.partition_count, topic.name,
            )  # fmt: skip
        self.logs.create_missing([topic])

    def _take_directory(self, directory: LogDirectory) -> None:
        for path in directory.deleted_paths:
            self.removals.add(directory, path)
        for (name, index), log in directory.logs.items():
            topic = self.topics.get(name)
            log.maintenance.reconfigure(topic.config)
            ensure_topic_id(self._file_system, directory, name, index, topic.topic_id)
            partition = topic.partitions[index] = Partition(name, index, log, directory)
            known = self._known.image.partition(TopicPartition(name, index))
            if known is not None and known.leader_epoch > partition.leader_epoch:
                partition.leader_epoch = known.leader_epoch  # nothing was written in it yet
        for (name, _), log in directory.futures.items():
            log.maintenance.reconfigure(self.configs.get(name))

    def _check_id_is_free(self, topic: TopicImage) -> None:
        other = self.topics.find_by_id(topic.topic_id)
        if other is not None:
            raise UserError(
                f"topics {other.name} and {topic.name} have the same id; move one of them away"
            )

    # Changes

    def forget_earlier(self, partitions: Iterable[tuple[Topic, range]]) -> None:
        """Removes partitions that will be created from the checkpoints."""
        for topic, indexes in partitions:
            self.logs.forget(topic.name, indexes)

    def create(self, topics: Sequence[Topic]) -> None:
        """Creates all topics; if one cannot be created, nothing is left of any."""
        try:
            for topic in topics:
                self.configs.put(topic.name, topic.config)
            self.logs.create_missing(topics)
        except StorageError:
            for topic in topics:
                self.configs.remove(topic.name)
                self._delete_created(topic)
            raise
        for topic in topics:
            self.topics.add(topic)
            _warn_of_format(topic)

    def _delete_created(self, topic: Topic) -> None:
        """The next start removes what a failing disk has kept."""
        with contextlib.suppress(StorageError):
            for index in list(topic.partitions):
                directory = topic.partitions.pop(index).directory
                if not directory.is_offline:
                    self.logs.delete(directory, [TopicPartition(topic.name, index)])

    def grow(self, growing: Sequence[tuple[Topic, int]]) -> None:
        """Creates the partitions of topics up to other counts."""
        try:
            for topic, count in growing:
                topic.partition_count = count
            self.logs.create_missing([topic for topic, _ in growing])
        except StorageError as error:
            for topic, _ in growing:
                missing = set(range(topic.partition_count)) - topic.partitions.keys()
                topic.offline_indexes |= dict.fromkeys(sorted(missing), str(error))
            raise

    def configure(self, topic: Topic, overrides: Mapping[str, str]) -> None:
        """Applies settings: values that are not valid here are ignored, each with an error line."""
        if overrides != topic.overrides:
            topic.overrides = dict(overrides)
            self._apply(topic, self.configs.stored(topic.name, topic.overrides))

    def take_away(self, topics: Sequence[Topic]) -> None:
        """Removes topics. Their partitions in an offline directory are removed when it is online
        again.
        """
        for topic in in_turns(topics):
            offline_indexes = topic.offline_indexes
            self.topics.remove(topic)
            self.configs.remove(topic.name)
            self.logs.forget(topic.name, offline_indexes)
            self.logs.let_go(TopicPartition(topic.name, one) for one in offline_indexes)
        names = {topic.name for topic in topics}
        for directory in self.directories.online:
            self.logs.delete_all(names, directory)

    def check_defaults(self, defaults: TopicConfig) -> None:
        """Checks other defaults with the settings of all topics, in turns; raises `ApiError`."""
        checked: set[frozenset[tuple[str, str]]] = set()
        for topic in in_turns(list(self.topics)):
            own = frozenset(topic.overrides.items())
            if own not in checked:  # thousands of topics, and a few kinds of settings
                self.configs.check_under(defaults, topic.name, topic.overrides)
                checked.add(own)

    def remove_files(self, monotonic_ms: float) -> None:
        """Removes some files of deleted topics, `file.delete.delay.ms` after the deletion."""
        if self.removals.queue:
            self.removals.run(monotonic_ms, self.configs.defaults.file_delete_delay_ms)

    def change_defaults(self, defaults: TopicConfig) -> None:
        """Changes the defaults of all topics, which are the broker's own settings, in turns."""
        self.configs.defaults = defaults
        known: dict[frozenset[tuple[str, str]], TopicConfig] = {}
        with kept():
            for topic in in_turns(list(self.topics)):
                if self.configs.defaults is not defaults:
                    return  # changed again, for all topics
                if self.topics.find(topic.name) is not topic:
                    continue
                own = frozenset(topic.overrides.items())
                config = known.get(own)
                if config is None:
                    config = self.configs.stored(topic.name, topic.overrides)
                    if topic.name not in self.configs.refused:
                        known[own] = config
                self._apply(topic, config)

    def is_held(self, topic: str, ignored: Mapping[str, str]) -> bool:
        """Whether it is not known which records a topic keeps, since a setting of it or, by
        `ignored`, a default of the broker is not valid.
        """
        if self.configs.is_held(topic):
            return True
        deciding = DECIDING & ignored.keys()
        found = self.topics.find(topic) if deciding else None
        return found is not None and not deciding <= found.overrides.keys()

    def _apply(self, topic: Topic, config: TopicConfig) -> None:
        if config == topic.config:
            return
        topic.config = config
        _warn_of_format(topic)
        self.configs.put(topic.name, config)
        for partition in topic.partitions.values():
            partition.log.maintenance.reconfigure(config)
        for directory in self.directories:
            for (name, _), log in directory.futures.items():
                if name == topic.name:
                    log.maintenance.reconfigure(config)


def _warn_of_format(topic: Topic) -> None:
    if topic.config.is_format_ignored and FORMAT_NAME in topic.overrides:
        logger.warning(
            "topic %s: message.format.version=%s is ignored, since inter.broker.protocol.version "
            "is 3.0 or later",
            topic.name, topic.config.message_format_version,
        )  # fmt: skip
