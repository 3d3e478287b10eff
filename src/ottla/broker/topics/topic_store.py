"""Topics on disk: creates, extends, configures and deletes them, each durably or not at all.

Every change is in the metadata log (`topic_records`) before the first partition is changed, so that
after a crash the next start completes it.

Kafka's counterparts: `ReplicationControlManager`, `TopicDeletionManager`.
"""

import contextlib
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError, StorageError, UserError
from ottla.base.files import FileSystem
from ottla.base.ids import Uuid
from ottla.base.partitions import TopicPartition
from ottla.base.turns import in_turns, kept, yield_turn
from ottla.broker.topics.on_disk import (
    OpenedDirectories,
    TopicConfigs,
    ensure_topic_id,
    entries_on_disk,
)
from ottla.broker.topics.partition import Partition
from ottla.broker.topics.partition_logs import PartitionLogs
from ottla.broker.topics.removals import Removals
from ottla.broker.topics.storage_failures import storage_failures_answered, storage_refusal
from ottla.broker.topics.topic_records import TopicRecords
from ottla.broker.topics.topics import POLICY_NAME, Topic, Topics
from ottla.config.topic import DECIDING, TopicConfig
from ottla.metadata.deciding.topic_rules import check_changed_settings, new_topic_config
from ottla.metadata.deciding.topics import NewTopic, TopicGrowth
from ottla.storage.directory.log_directories import LogDirectories
from ottla.storage.directory.log_directory import LogDirectory
from ottla.storage.files.known_topics import TopicEntry

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
        records: TopicRecords,
    ) -> None:
        self.topics = Topics()
        self.removals = removals
        self.directories = directories
        self._file_system = file_system
        self.configs = configs
        self._new_id = new_id
        self.records = records
        self.unconfirmed = records.unconfirmed
        self.under_way: set[str] = set()
        """Topics that are being created or deleted while other requests have their turn."""
        self.logs = PartitionLogs(directories, removals)
        self.before_deletion: Callable[[Sequence[Topic]], None] = _pass
        """Called with topics that are about to be deleted."""
        self._growing: set[str] = set()

    def load(self, opened: OpenedDirectories) -> None:
        """Creates the topics from the disks, and completes what a crash interrupted."""
        entries = entries_on_disk(opened)
        self.logs.refused = opened.refused
        for entry in entries.values():
            config = self.configs.stored(entry.name, entry.overrides)
            self.configs.put(entry.name, config)
            self._check_id_is_free(entry)
            self.topics.add(Topic(entry, config))
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
        self._find_unrecorded(opened)
        if opened.has_all_partitions:
            self._show(self.topics)

    def _show(self, topics: Iterable[Topic]) -> None:
        """Brings the image up to what is here of some topics, which may have been deleted."""
        self.records.show([one.name for one in topics], self.topics.find)

    def _find_unrecorded(self, opened: OpenedDirectories) -> None:
        """Finds what the metadata log does not have, or has otherwise; internal topics get
        records, as their settings are known.
        """
        grown: list[tuple[Topic, int]] = []
        replaced: list[TopicEntry] = []
        for topic in self.topics:
            entry = opened.entries.get(topic.name)
            if entry is None or entry.topic_id != topic.topic_id:
                self.unconfirmed.hold(topic.name, opened.unknown)
                replaced += [] if entry is None else [entry]
            elif entry.partition_count < topic.partition_count:
                grown.append((topic, entry.partition_count))
            if opened.is_damaged:
                self.unconfirmed.hold(topic.name, opened.unknown)
        if opened.may_be_changed:
            with contextlib.suppress(StorageError):  # logged where the directory went offline
                for entry in replaced:
                    self.records.replace(entry)
                self.records.confirm([one for one in self.topics if one.is_internal])
                self.records.grow(grown)
        for topic in self.topics:
            if topic.is_internal:
                self.unconfirmed.forget(topic.name)

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
                    self._begin(draft)
                    if new.unknown is not None:
                        self.unconfirmed.hold(draft.name, new.unknown)
                    drafts.append(draft)
                    results.append(draft)
                refusal = self._make(drafts) if drafts else None
            finally:
                self._end(drafts)
            if refusal is not None:
                return [one if isinstance(one, ApiError) else refusal for one in results]
            for topic in drafts:
                self.topics.add(topic)
                _warn_of_format(topic)
            self._show(drafts)
        return results

    def _draft(self, new: NewTopic, partition_count: int) -> Topic:
        """Returns the topic to create; raises `ApiError`."""
        self.topics.check_new_name(new.name)
        with storage_failures_answered():
            self.records.check()
        self.logs.check_any_open()
        self.logs.check_nothing_in_the_way(new.name, range(partition_count))
        entry = TopicEntry(
            name=new.name,
            topic_id=self._id_for(new),
            partition_count=partition_count,
            overrides=new.settings,
        )
        return Topic(entry, new_topic_config(new.name, self.configs.defaults, new.overrides))

    def _make(self, drafts: Sequence[Topic]) -> ApiError | None:
        """Creates all topics, with one write for their records; returns the error if one fails."""
        try:
            for topic in drafts:
                self.logs.forget(topic.name, range(topic.partition_count))
            self.records.create(drafts)
        except ApiError as error:
            return error.without_traceback()
        except StorageError as error:
            return storage_refusal(error)
        try:
            for topic in drafts:
                self.configs.put(topic.name, topic.config)
            self.logs.create_missing(drafts)
        except StorageError as error:
            for topic in drafts:
                self.configs.remove(topic.name)
            self._undo(drafts)
            return storage_refusal(error)
        return None

    def _begin(self, topic: Topic) -> None:
        """Reserves the name while other requests have their turn."""
        self.under_way.add(topic.name)
        self.topics.reserve(topic.name)

    def _end(self, topics: Iterable[Topic]) -> None:
        for topic in topics:
            self.under_way.discard(topic.name)
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
                    self._growing.add(topic.name)
                refusal = self._grow(growing) if growing else None
                self._show(topic for topic, _ in growing)
            finally:
                self._growing.difference_update(topic.name for topic, _ in growing)
        if refusal is not None:
            return [refusal if one is None else one for one in results]
        return results

    def _check_growth(self, topic: Topic, partition_count: int) -> None:
        self._check_is_free(topic)
        assert partition_count > topic.partition_count
        self.logs.check_any_open()
        added = range(topic.partition_count, partition_count)
        self.logs.check_nothing_in_the_way(topic.name, added)

    def _grow(self, growing: Sequence[tuple[Topic, int]]) -> ApiError | None:
        """Creates the partitions above the old counts; returns the error, if any.

        Their records are written with one write. Partitions that have records and cannot be created
        are offline until the next start, as of a broker of Kafka's.
        """
        try:
            for topic, old_count in growing:
                self.logs.forget(topic.name, range(old_count, topic.partition_count))
            self.records.grow(growing)
        except (ApiError, StorageError) as error:
            for topic, old_count in growing:
                topic.partition_count = old_count
            return storage_refusal(error) if isinstance(error, StorageError) else error
        try:
            self.logs.create_missing([topic for topic, _ in growing])
        except StorageError as error:
            for topic, _ in growing:
                missing = set(range(topic.partition_count)) - topic.partitions.keys()
                topic.offline_indexes |= dict.fromkeys(sorted(missing), str(error))
            return storage_refusal(error)
        return None

    def _check_is_there(self, topic: Topic) -> None:
        """Raises `ApiError` for a topic that is deleted, or is being deleted."""
        if self.topics.find(topic.name) is not topic or topic.name in self.under_way:
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
        overrides = self._checked(topic, topic.overrides, overrides)
        if not validate_only:
            self.follow(topic, overrides)
            self._show([topic])

    def _checked(
        self, topic: Topic, before: Mapping[str, str], overrides: Mapping[str, str]
    ) -> Mapping[str, str]:
        if topic.is_internal:
            overrides = {POLICY_NAME: "compact", **overrides}
            if overrides[POLICY_NAME] != "compact":
                # Kafka allows it, and then deletes offsets and transactions by age.
                raise ApiError(
                    ErrorCode.INVALID_CONFIG,
                    f"{POLICY_NAME} of {topic.name} must be compact.",
                )
        check_changed_settings(topic.name, self.configs.defaults, before, overrides)
        self._check_is_there(topic)
        return overrides

    def confirm(self, settings: Mapping[str, Mapping[str, str]]) -> None:
        """Records topics of which a user has confirmed the settings; raises `ApiError`."""
        topics = [self.topics.get(name) for name in settings]
        for topic in topics:
            # They are those of another broker: a topic that it has tiered stays so.
            self._checked(topic, settings[topic.name], settings[topic.name])
        for topic in topics:
            topic.overrides = dict(settings[topic.name])
        with storage_failures_answered():
            self.records.confirm(topics)
        for topic in topics:
            self._apply(topic, self.configs.stored(topic.name, topic.overrides))
        self._show(topics)

    def follow(self, topic: Topic, overrides: Mapping[str, str]) -> None:
        """As `configure`, for what the cluster has decided: values that are not valid here are
        ignored, each with an error line.
        """
        if overrides == topic.overrides:
            return
        old_overrides, topic.overrides = topic.overrides, (new_overrides := dict(overrides))
        try:
            with storage_failures_answered():
                self.records.configure(topic, old_overrides, new_overrides)
        except ApiError:
            if topic.overrides is new_overrides:
                topic.overrides = old_overrides
            raise
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

    def delete(self, topics: Sequence[Topic]) -> None:
        """Deletes topics; the names of their directories are free from now on."""
        for topic in topics:
            self._check_is_free(topic)
        with kept(), storage_failures_answered():
            self.under_way |= {topic.name for topic in topics}
            try:
                self.before_deletion(topics)
                self.records.delete([topic.entry() for topic in topics])
                self._take_away(topics)
            finally:
                self._end(topics)

    def _take_away(self, topics: Sequence[Topic]) -> None:
        """Removes topics. Their partitions in an offline directory are removed when it is online
        again.
        """
        for topic in topics:
            offline_indexes = topic.offline_indexes
            self.topics.remove(topic)
            self.topics.reserve(topic.name)
            self.configs.remove(topic.name)
            self.logs.forget(topic.name, offline_indexes)
        self._show(topics)
        names = {topic.name for topic in topics}
        for directory in self.directories.online:
            self.logs.delete_all(names, directory)

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

    def _undo(self, drafts: Sequence[Topic]) -> None:
        """Removes topics that could not be created; the next start removes what a failing disk has
        kept.
        """
        with contextlib.suppress(StorageError, ApiError):
            self.records.delete([topic.entry() for topic in drafts])
            for topic in drafts:
                for index in list(topic.partitions):
                    directory = topic.partitions.pop(index).directory
                    if not directory.is_offline:
                        self.logs.delete(directory, [TopicPartition(topic.name, index)])


def _warn_of_format(topic: Topic) -> None:
    if topic.config.is_format_ignored and FORMAT_NAME in topic.overrides:
        logger.warning(
            "topic %s: message.format.version=%s is ignored, since inter.broker.protocol.version "
            "is 3.0 or later",
            topic.name, topic.config.message_format_version,
        )  # fmt: skip


def _pass(_: Sequence[Topic]) -> None:
    """What is done at first before a deletion."""
