"""The topics of a broker in a cluster, which has only some partitions of each.

The controller decides which; `TopicStore` has the topics of a single broker. Kafka's counterpart:
`ReplicaManager.getOrCreatePartition`.
"""

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError, ShortageError, StorageError
from ottla.base.ids import ZERO_UUID, Uuid
from ottla.base.partitions import TopicPartition
from ottla.base.turns import OneAtATime, in_turns, kept, parts_in_turns, turn_dict, turn_list
from ottla.broker.topics.partition import Partition
from ottla.broker.topics.partition_logs import LOGS_MADE_PER_TURN
from ottla.broker.topics.storage_failures import storage_failures_answered, storage_refusal
from ottla.broker.topics.topic_store import TopicStore
from ottla.broker.topics.topics import Topic
from ottla.metadata.deciding.topic_rules import check_name
from ottla.metadata.image import NO_PARTITION, TopicImage
from ottla.storage.directory.log_directory import LogDirectory

MAY_BE_OFFLINE: Final = "its log may be in a log directory that is offline"


class Hosting:
    """Creates and deletes single partitions, and their topics with them."""

    def __init__(self, store: TopicStore) -> None:
        self._topics = store.topics
        self._configs = store.configs
        self._directories = store.directories
        self._logs = store.logs
        self._hosting = OneAtATime()
        self._stopped: dict[TopicPartition, None] = {}
        """Deleted partitions that the checkpoints may still name."""
        self._renamed: dict[LogDirectory, None] = {}
        """Directories in which the names of stopped partitions are not durable yet."""
        self.awaited: dict[TopicPartition, str] = {}
        """Partitions that could not be made for lack of descriptors or memory, and why."""
        self.held: dict[TopicPartition, Uuid] = {}
        """Partitions of topics with these ids whose logs may be in a directory that was offline at
        the start, though nobody has said so: none is made in another one.
        """

    def host(self, key: TopicPartition, topic_id: Uuid, overrides: Mapping[str, str]) -> Partition:
        """Returns the partition; creates it, and its topic, durably if they are missing.

        Raises `ApiError`: INCONSISTENT_TOPIC_ID if the disks have another topic of that name.
        """
        found = self._topics.find(key.topic)
        if found is not None and topic_id not in (found.topic_id, ZERO_UUID):
            raise ApiError(ErrorCode.INCONSISTENT_TOPIC_ID)
        topic = self._topic_to_host(key, topic_id, overrides)
        if topic is None:
            return self._topics.partition(*key)
        online = len(self._directories.online)
        try:
            self._logs.forget(key.topic, [key.partition])
            self._logs.create([(topic, key.partition)])
            self.awaited.pop(key, None)
        except ShortageError as error:
            self._await([(topic, key.partition)], error)
            raise storage_refusal(error) from error
        except StorageError as error:
            if len(self._directories.online) not in range(1, online):
                raise storage_refusal(error) from error
            # A directory has failed just now, and nobody asks again: another one is left.
            return self.host(key, topic_id, overrides)
        return topic.partition(key.partition)

    def host_all(
        self,
        wanted: Mapping[TopicPartition, Uuid],
        topic_ids: Mapping[str, Uuid],
        settings: Mapping[str, Mapping[str, str]],
        on_made: Callable[[Partition], None],
    ) -> None:
        """Creates the missing ones of many partitions, in turns, with one write for their topics;
        each in the directory whose id it has in `wanted`, if that is not zero.

        Raises nothing: `host` reports the partitions that could not be created. `on_made` is called
        for a new partition before other requests see it. Two controllers may call this at the same
        time.
        """
        with self._hosting, kept(), contextlib.suppress(StorageError):
            missing: list[tuple[Topic, int]] = turn_list()
            for key in wanted:
                with contextlib.suppress(ApiError):
                    topic_id = topic_ids.get(key.topic, ZERO_UUID)
                    overrides = settings.get(key.topic, {})
                    topic = self._topic_to_host(key, topic_id, overrides)
                    if topic is not None:
                        missing.append((topic, key.partition))
            if not missing:
                return
            try:
                self._create_all(missing, wanted, on_made)
            except ShortageError as error:
                self._await(missing, error)

    def _create_all(
        self,
        missing: Sequence[tuple[Topic, int]],
        wanted: Mapping[TopicPartition, Uuid],
        on_made: Callable[[Partition], None],
    ) -> None:
        indexes: dict[str, list[int]] = turn_dict()
        for topic, index in in_turns(missing):
            indexes.setdefault(topic.name, []).append(index)
        for name, some in indexes.items():
            self._logs.forget(name, some)
        left = len(missing)
        for part in parts_in_turns(missing, LOGS_MADE_PER_TURN):
            left -= len(part)
            still = [(topic, index) for topic, index in part if self._is_missing(topic, index)]
            self._logs.create(still, on_made, wanted, is_more_to_come=left > 0)
            for topic, index in still:
                self.awaited.pop(TopicPartition(topic.name, index), None)

    def _is_missing(self, topic: Topic, index: int) -> bool:
        """While others had their turn, a topic may have been deleted, or `host` called."""
        is_here = index in topic.partitions or index in topic.offline_indexes
        return self._topics.find(topic.name) is topic and not is_here

    def _await(self, missing: Iterable[tuple[Topic, int]], error: ShortageError) -> None:
        """Notes what could not be made, and forgets topics of which nothing is here: when it is
        tried again, they may have been deleted, or have other settings.
        """
        for topic, index in in_turns(missing):
            if self._is_missing(topic, index):
                self.awaited[TopicPartition(topic.name, index)] = error.reason
        for topic, _ in in_turns(missing):
            has_none = not topic.partitions and not topic.offline_indexes
            if has_none and self._topics.find(topic.name) is topic:
                self._forget(topic)

    def _forget(self, topic: Topic) -> None:
        self._topics.remove(topic)
        self._configs.remove(topic.name)

    def _topic_to_host(
        self, key: TopicPartition, topic_id: Uuid, overrides: Mapping[str, str]
    ) -> Topic | None:
        """Returns the topic of a missing partition, `None` if nothing is to be created.

        Raises `ApiError` if the partition cannot be created.
        """
        topic = self._topics.find(key.topic)
        if topic is not None and (
            topic_id not in (topic.topic_id, ZERO_UUID) or key.partition in topic.known_indexes
        ):
            return None
        check_name(key.topic)
        if key.partition < 0:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        reason = self._why_refused(key, topic_id)
        if reason is not None:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, reason)
        if topic is None:
            return self._host_topic(key, topic_id, overrides)
        if key.partition >= topic.partition_count:
            topic.partition_count = key.partition + 1
        return topic

    def _why_refused(self, key: TopicPartition, topic_id: Uuid) -> str | None:
        if key in self.held and self.held[key] == topic_id:
            return MAY_BE_OFFLINE
        return self._logs.refused.get(key)

    def why_not_here(self, key: TopicPartition, topic_id: Uuid) -> str | None:
        """Why a partition that belongs here has no log that can be used, if a person must see to
        it: it is damaged or lost, or may be in a directory that is offline.
        """
        topic = self._topics.find(key.topic)
        if topic is not None and key.partition in topic.partitions:
            return None
        is_it = topic is not None and topic_id == topic.topic_id
        reason = topic.offline_indexes.get(key.partition) if topic is not None and is_it else None
        return reason or self._why_refused(key, topic_id)

    def _host_topic(
        self, key: TopicPartition, topic_id: Uuid, overrides: Mapping[str, str]
    ) -> Topic:
        image = TopicImage(key.topic, topic_id, {key.partition: NO_PARTITION}, overrides)
        topic = Topic(image, self._configs.stored(key.topic, overrides))
        self._configs.put(topic.name, topic.config)
        self._topics.add(topic)
        return topic

    def stop(self, key: TopicPartition, *, is_stray: bool = False) -> None:
        """Deletes a partition, and its topic with the last one; keeps the log if `is_stray`.
        Raises `ApiError`.

        Until `save`, a start finds the topic without the partition, and counts it as lost.
        """
        topic = self._topics.find(key.topic)
        partition = None if topic is None else topic.partitions.get(key.partition)
        if topic is None:
            return
        if partition is None:
            self._stop_lost(topic, key)
            return
        with storage_failures_answered():
            directory = partition.directory
            if key in directory.futures:
                self._logs.delete_copy(directory, key)
            del topic.partitions[key.partition]
            if not topic.known_indexes:
                self._forget(topic)
            if is_stray:
                self._logs.set_aside(directory, key)
            else:
                self._logs.delete(directory, [key], is_synced=False)
            self._stopped[key] = None
            self._renamed[directory] = None

    def _stop_lost(self, topic: Topic, key: TopicPartition) -> None:
        """Forgets a partition that was lost before the start, so that one of its name may come."""
        if topic.offline_indexes.pop(key.partition, None) is None:
            return
        if not topic.known_indexes:
            self._forget(topic)
        with storage_failures_answered():
            self._logs.let_go([key])
        self._stopped[key] = None

    def sync(self) -> None:
        """Makes the names of stopped partitions durable; in a turn others have theirs meanwhile.

        Raises `StorageError`.
        """
        renamed, self._renamed = self._renamed, {}
        for directory in renamed:
            directory.sync_names()

    def save(self) -> None:
        """Writes what the stopped partitions change in the checkpoints; once for many.

        Raises `StorageError`.
        """
        self.sync()
        if not self._stopped:
            return
        stopped, self._stopped = self._stopped, {}
        # What they name, and is not there, counts as lost after a crash.
        self._logs.forget_all(stopped)
