"""Topics on disk: creates, extends, configures and deletes them, each durably or not at all.

Every change is written to the topic file of each log directory (`topic_files`) before the first
partition is changed (a deletion: marked there), so after a crash `load` completes it.

Kafka's counterparts: `ReplicationControlManager`, `TopicDeletionManager`.
"""

import contextlib
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError, StorageError, UserError
from ottla.base.files import FileSystem
from ottla.base.ids import ZERO_UUID, Uuid
from ottla.base.partitions import TopicPartition
from ottla.base.turns import in_turns, kept, yield_turn
from ottla.broker.storage_failures import storage_failures_answered, storage_refusal
from ottla.broker.topics.on_disk import (
    OpenedDirectories,
    TopicConfigs,
    ensure_topic_id,
    entries_on_disk,
)
from ottla.broker.topics.partition import Partition
from ottla.broker.topics.partition_logs import PartitionLogs
from ottla.broker.topics.removals import Removals
from ottla.broker.topics.topic_files import TopicFiles
from ottla.broker.topics.topic_rules import check_changed_settings, topic_config
from ottla.broker.topics.topics import POLICY_NAME, NewTopic, Topic, TopicGrowth, Topics
from ottla.config.topic import DECIDING, TopicConfig
from ottla.storage.directory.log_directories import LogDirectories
from ottla.storage.directory.log_directory import LogDirectory
from ottla.storage.files.topic_file import TopicEntry

logger = logging.getLogger(__name__)

FORMAT_NAME = "message.format.version"


class TopicStore:
    """Keeps `topics` and the disks consistent. Changes that raise `ApiError` have no effect."""

    def __init__(
        self,
        directories: LogDirectories,
        file_system: FileSystem,
        configs: TopicConfigs,
        new_id: Callable[[], Uuid],
        removals: Removals,
        *,
        has_all_partitions: bool = True,
    ) -> None:
        """`has_all_partitions` on a single broker; in a cluster the controller assigns them."""
        self.topics = Topics()
        self.removals = removals
        self._has_all_partitions = has_all_partitions
        self.directories = directories
        self._file_system = file_system
        self.configs = configs
        self._new_id = new_id
        self.files = TopicFiles(self.topics, directories, file_system)
        self.logs = PartitionLogs(directories, removals)
        self._growing: set[str] = set()

    def load(self, opened: OpenedDirectories) -> None:
        """Creates the topics from the disks, and completes what a crash interrupted."""
        entries = entries_on_disk(opened)
        self.files.gone = set(opened.gone)
        self.logs.refused = opened.refused
        for entry in entries.values():
            config = self.configs.stored(entry.name, entry.overrides)
            self.configs.put(entry.name, config)
            self._check_id_is_free(entry)
            self.topics.add(Topic(entry, config))
        for directory in self.directories:
            self._take_directory(directory)
        for entry in entries.values():
            topic = self.topics.get(entry.name)
            if entry.is_deleted:
                logger.info("finishing the deletion of topic %s", entry.name)
                self._delete([topic])
            else:
                topic.offline_indexes = self._not_at_hand(topic)
                if self.directories.is_complete:
                    _warn_of_format(topic)
                    if self._has_all_partitions:
                        self._complete(topic)
        if not self.directories.is_complete:
            return
        # The partitions of deleted topics are stray now, so their ids are no longer needed. And
        # topics of Kafka's are recorded with their ids, which identify their directories from now
        # on.
        is_known = {topic.name: topic.entry() for topic in self.topics} == opened.entries
        if self.files.gone or not is_known:
            self.files.gone.clear()
            self.files.write()

    def _not_at_hand(self, topic: Topic) -> dict[int, str]:
        """Returns why partitions are offline: in an offline directory, or refused."""
        missing = [one for one in range(topic.partition_count) if one not in topic.partitions]
        refused = {one: self.logs.refused.get(TopicPartition(topic.name, one)) for one in missing}
        is_away = self._has_all_partitions and not self.directories.is_complete
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
            topic.partitions[index] = Partition(name, index, log, directory)
        for (name, _), log in directory.futures.items():
            log.maintenance.reconfigure(self.configs.get(name))

    def _check_id_is_free(self, entry: TopicEntry) -> None:
        other = self.topics.find_by_id(entry.topic_id)
        if other is not None:
            raise UserError(
                f"topics {other.name} and {entry.name} have the same id; move one of them away"
            )

    # Changes

    def create(self, new: NewTopic, partition_count: int, *, validate_only: bool = False) -> Topic:
        """Creates a topic."""
        if validate_only:
            return self._draft(new, partition_count)
        (result,) = self.create_all([(new, partition_count)])
        if isinstance(result, ApiError):
            raise result
        return result

    def create_all(self, wanted: Sequence[tuple[NewTopic, int]]) -> list[Topic | ApiError]:
        """Creates topics with the given partition counts; returns each topic, or its error."""
        results: list[Topic | ApiError] = []
        drafts: list[Topic] = []
        with kept():
            try:
                for new, partition_count in in_turns(wanted):
                    try:
                        draft = self._draft(new, partition_count)
                    except ApiError as error:
                        results.append(error.without_traceback())
                        continue
                    self._begin(draft.entry())
                    drafts.append(draft)
                    results.append(draft)
                refusal = self._make(drafts) if drafts else None
            finally:
                self._end(drafts)
            if refusal is not None:
                self._undo([(topic, list(topic.partitions)) for topic in drafts])
                return [one if isinstance(one, ApiError) else refusal for one in results]
            for topic in drafts:
                self.topics.add(topic)
                _warn_of_format(topic)
        return results

    def _draft(self, new: NewTopic, partition_count: int) -> Topic:
        """Returns the topic to create; raises `ApiError`."""
        self.topics.check_new_name(new.name)
        self.logs.check_any_open()
        self.logs.check_nothing_in_the_way(new.name, range(partition_count))
        entry = TopicEntry(
            name=new.name,
            topic_id=self._id_for(new),
            partition_count=partition_count,
            overrides={name: text for name, text in new.overrides.items() if text is not None},
            revision=1,
        )
        return Topic(entry, topic_config(self.configs.defaults, new.overrides))

    def _make(self, drafts: Sequence[Topic]) -> ApiError | None:
        """Creates all topics, with one write for their entries; returns the error if one fails."""
        try:
            for topic in drafts:
                self.logs.forget(topic.name, range(topic.partition_count))
            self.files.write()
            for topic in drafts:
                self.configs.put(topic.name, topic.config)
            self.logs.create_missing(drafts)
        except StorageError as error:
            for topic in drafts:
                self.configs.remove(topic.name)
            return storage_refusal(error)
        return None

    def _begin(self, entry: TopicEntry) -> None:
        """Reserves the name, and includes the entry in every write, while other requests have their
        turn.
        """
        self.files.under_way[entry.name] = entry
        self.topics.reserve(entry.name)

    def _end(self, topics: Iterable[Topic]) -> None:
        for topic in topics:
            self.files.under_way.pop(topic.name, None)
            self.topics.release(topic.name)

    def grow_all(
        self, wanted: Sequence[TopicGrowth], checked: Callable[[TopicGrowth], Topic]
    ) -> list[ApiError | None]:
        """Adds partitions up to the given counts; returns one error, or `None`, for each topic.

        `checked` returns the topic if it may grow, or raises `ApiError`.
        """
        results: list[ApiError | None] = []
        growing: list[tuple[Topic, int]] = []
        with kept():
            try:
                for growth in wanted:
                    if results:
                        yield_turn()
                    try:
                        topic = checked(growth)
                        self._check_growth(topic, growth.partition_count)
                    except ApiError as error:
                        results.append(error.without_traceback())
                        continue
                    results.append(None)
                    growing.append((topic, topic.partition_count))
                    topic.partition_count = growth.partition_count
                    topic.revision += 1
                    self._growing.add(topic.name)
                refusal = self._grow(growing) if growing else None
            finally:
                self._growing.difference_update(topic.name for topic, _ in growing)
        if refusal is not None:
            return [refusal if one is None else one for one in results]
        self.topics.revision += 1
        return results

    def _check_growth(self, topic: Topic, partition_count: int) -> None:
        assert partition_count > topic.partition_count
        self.logs.check_any_open()
        self._check_is_free(topic)
        added = range(topic.partition_count, partition_count)
        self.logs.check_nothing_in_the_way(topic.name, added)

    def _grow(self, growing: Sequence[tuple[Topic, int]]) -> ApiError | None:
        """Creates the partitions above the old counts, all or none; returns the error, if any.

        Their entries are written with one write.
        """
        try:
            for topic, old_count in growing:
                self.logs.forget(topic.name, range(old_count, topic.partition_count))
            self.files.write()
            self.logs.create_missing([topic for topic, _ in growing])
        except StorageError as error:
            for topic, old_count in growing:
                topic.partition_count = old_count
                topic.revision += 1
            self._undo(
                [
                    (topic, [one for one in topic.partitions if one >= old_count])
                    for topic, old_count in growing
                ]
            )
            return storage_refusal(error)
        return None

    def _check_is_there(self, topic: Topic) -> None:
        """Raises `ApiError` for a topic that is deleted, or is being deleted."""
        if self.topics.find(topic.name) is not topic or topic.name in self.files.under_way:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def _check_is_free(self, topic: Topic) -> None:
        """Raises `ApiError` for a topic that another request is deleting or extending."""
        self._check_is_there(topic)
        if topic.name in self._growing:
            raise ApiError(
                ErrorCode.REASSIGNMENT_IN_PROGRESS,
                f"Topic '{topic.name}' is being given more partitions.",
            )

    def configure(
        self, topic: Topic, overrides: Mapping[str, str], *, validate_only: bool = False
    ) -> None:
        """Replaces a topic's overridden settings; its logs use them from now on."""
        if topic.is_internal:
            overrides = {POLICY_NAME: "compact", **overrides}
            if overrides[POLICY_NAME] != "compact":
                # Kafka allows it, and then deletes offsets and transactions by age.
                raise ApiError(
                    ErrorCode.INVALID_CONFIG,
                    f"{POLICY_NAME} of {topic.name} must be compact.",
                )
        check_changed_settings(self.configs.defaults, topic.overrides, overrides)
        self._check_is_there(topic)
        if not validate_only:
            self.follow(topic, overrides)

    def follow(self, topic: Topic, overrides: Mapping[str, str]) -> None:
        """As `configure`, for what the cluster has decided: values that are not valid here are
        ignored, each with an error line.
        """
        if overrides == topic.overrides:
            return
        old_overrides, topic.overrides = topic.overrides, (new_overrides := dict(overrides))
        topic.revision += 1
        try:
            self.files.write()
        except StorageError as error:
            if topic.overrides is new_overrides:
                topic.overrides = old_overrides
            topic.revision += 1
            raise storage_refusal(error) from error
        finally:
            if self.topics.find(topic.name) is topic:
                # The settings or defaults may have changed again during the turns, or the topic
                # been deleted.
                self._apply(topic, self.configs.stored(topic.name, topic.overrides))

    def check_defaults(self, defaults: TopicConfig) -> None:
        """Checks other defaults with the settings of all topics, in turns; raises `ApiError`."""
        checked: set[frozenset[tuple[str, str]]] = set()
        for topic in in_turns(list(self.topics)):
            own = frozenset(topic.overrides.items())
            if own not in checked:  # thousands of topics, and a few kinds of settings
                self.configs.check_under(defaults, topic.name, topic.overrides)
                checked.add(own)

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

    def delete(self, topics: Sequence[Topic]) -> None:
        """Deletes topics; the names of their directories are free from now on."""
        for topic in topics:
            self._check_is_free(topic)
        for topic in topics:
            topic.revision += 1
        with kept(), storage_failures_answered():
            self._delete(topics)

    def _delete(self, topics: Sequence[Topic]) -> None:
        self.files.under_way |= {topic.name: topic.entry(is_deleted=True) for topic in topics}
        try:
            self.files.write()
            self._take_away(topics)
        finally:
            self._end(topics)
        # From here on, other requests may create topics of these names.
        self.files.write()

    def _take_away(self, topics: Sequence[Topic]) -> None:
        """Removes topics. Their partitions in an offline directory become stray when it is online
        again.
        """
        for topic in topics:
            offline_indexes = topic.offline_indexes
            self.topics.remove(topic)
            self.topics.reserve(topic.name)
            self.configs.remove(topic.name)
            self.logs.forget(topic.name, offline_indexes)
        names = {topic.name for topic in topics}
        for directory in self.directories.online:
            self.logs.delete_all(names, directory)
        if not self.directories.is_complete:
            self.files.gone.update({topic.topic_id for topic in topics} - {ZERO_UUID})

    def _id_for(self, new: NewTopic) -> Uuid:
        if new.topic_id is None:
            return self._unused_id()
        other = self.topics.find_by_id(new.topic_id)
        if other is not None:
            raise ApiError(
                ErrorCode.INVALID_REQUEST,
                f"Topic '{other.name}' has the id that '{new.name}' is to have.",
            )
        return new.topic_id

    def _unused_id(self) -> Uuid:
        while True:
            candidate = self._new_id()
            if self.topics.find_by_id(candidate) is None:
                return candidate

    def _undo(self, made: Sequence[tuple[Topic, Sequence[int]]]) -> None:
        """Removes created partitions; the next start removes what a failing disk has kept."""
        with contextlib.suppress(StorageError):
            for topic, indexes in made:
                for index in indexes:
                    directory = topic.partitions.pop(index).directory
                    if not directory.is_offline:
                        self.logs.delete(directory, [TopicPartition(topic.name, index)])
            self.files.write()


def _warn_of_format(topic: Topic) -> None:
    if topic.config.is_format_ignored and FORMAT_NAME in topic.overrides:
        logger.warning(
            "topic %s: message.format.version=%s is ignored, since inter.broker.protocol.version "
            "is 3.0 or later",
            topic.name, topic.config.message_format_version,
        )  # fmt: skip
