"""The logs of topics' partitions: where they are created, and how they are deleted.

A deleted partition's directory is renamed immediately; its files are removed later (`removals`).
Kafka's counterpart: `LogManager`.
"""

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError, ShortageError
from ottla.base.ids import ZERO_UUID, Uuid
from ottla.base.partitions import TopicPartition
from ottla.base.turns import in_turns, parts_in_turns
from ottla.broker.topics.partition import Partition
from ottla.broker.topics.removals import Removals
from ottla.broker.topics.topics import Topic
from ottla.storage.directory.log_directories import LogDirectories
from ottla.storage.directory.log_directory import LogDirectory

logger = logging.getLogger(__name__)

NOWHERE: Final[Mapping[TopicPartition, Uuid]] = {}

LOGS_MADE_PER_TURN: Final = 4
LOGS_DELETED_PER_TURN: Final = 32
"""The number of directories to create or rename before their names are synced together."""


class PartitionLogs:
    """All methods that change something raise `StorageError`.

    `refused` has the reasons for which partitions must not be created: a misplaced directory has
    the name of each.
    """

    def __init__(self, directories: LogDirectories, removals: Removals) -> None:
        self._directories = directories
        self._removals = removals
        self.refused: dict[TopicPartition, str] = {}
        self._unnamed: dict[str, LogDirectory] = {}
        """Directories with new logs that their checkpoint does not name yet."""

    # Creating

    def check_room_for(self, name: str, indexes: range) -> None:
        """Raises `ApiError` if no directory accepts new partitions; or as
        `check_nothing_in_the_way`.
        """
        if self._directories.are_cordoned:
            raise ApiError(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                "Unable to place the partition: every log directory is cordoned.",
            )
        self.check_nothing_in_the_way(name, indexes)

    def check_nothing_in_the_way(self, name: str, indexes: range) -> None:
        """Raises `ApiError` if a misplaced directory has the name of a new partition."""
        for index in indexes:
            reason = self.refused.get(TopicPartition(name, index))
            if reason is not None:
                raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, reason)

    def create_missing(self, topics: Sequence[Topic]) -> None:
        """Creates the missing partitions of topics; on return a start would miss each of them."""
        missing = [
            (topic, index)
            for topic in topics
            for index in in_turns(range(topic.partition_count))
            if index not in topic.partitions and index not in topic.offline_indexes
        ]
        left = len(missing)
        for part in parts_in_turns(missing, LOGS_MADE_PER_TURN):
            left -= len(part)
            self.create(part, is_more_to_come=left > 0)

    def create(
        self,
        missing: Sequence[tuple[Topic, int]],
        on_made: Callable[[Partition], None] = lambda _: None,
        directory_ids: Mapping[TopicPartition, Uuid] = NOWHERE,
        *,
        is_more_to_come: bool = False,
    ) -> None:
        """Creates partitions durably; with `is_more_to_come` the caller creates others of the same
        request, and the last call makes them known to the next start. `directory_ids` are those
        of the directories in which some are to be, if they are online.
        """
        touched: dict[str, LogDirectory] = {}
        for topic, index in missing:
            wanted = directory_ids.get(TopicPartition(topic.name, index), ZERO_UUID)
            found = None if wanted == ZERO_UUID else self._directories.online_with(wanted)
            directory = found or self._directories.emptiest()
            touched[directory.path] = directory
            try:
                log = directory.create_log(topic.name, index, topic.topic_id, is_synced=False)
            except ShortageError:
                # The caller may not try again, and those before are used.
                self._unnamed |= touched
                for one in touched.values():
                    one.sync_names()
                raise
            partition = topic.partitions[index] = Partition(topic.name, index, log, directory)
            on_made(partition)
        # Before other requests have their turn: checkpoints may name the logs, so they must exist.
        if is_more_to_come:
            self._unnamed |= touched
            for directory in touched.values():
                directory.sync_names()
            return
        touched, self._unnamed = self._unnamed | touched, {}
        for directory in touched.values():
            if not directory.is_offline:
                directory.checkpoints.name_created()

    # Deleting

    def delete_all(self, names: Collection[str], directory: LogDirectory) -> None:
        """Deletes the partitions of topics in a directory.

        Copies are deleted first: a copy without its log might count as the last one left.
        """
        for key in in_turns([key for key in directory.futures if key[0] in names]):
            self.delete_copy(directory, key)
        keys = [key for key in in_turns([*directory.logs]) if key[0] in names]
        for part in parts_in_turns(keys, LOGS_DELETED_PER_TURN):
            self.delete(directory, part)

    def delete(
        self, directory: LogDirectory, keys: Sequence[TopicPartition], *, is_synced: bool = True
    ) -> None:
        """Deletes partitions of a directory; `is_synced` as in `LogDirectory.delete_logs`."""
        for key in keys:
            self._removals.before_delete(key)
        logs = [directory.logs[key] for key in keys]
        for log, path in zip(logs, directory.delete_logs(keys, is_synced=is_synced), strict=True):
            self._removals.add(directory, path, log)

    def set_aside(self, directory: LogDirectory, key: TopicPartition) -> None:
        """Keeps a partition's log, which is not this broker's, as a stray directory."""
        self._removals.before_delete(key)
        path = directory.log_path(*key)
        kept = directory.set_aside(key)
        logger.warning("%s belongs to no topic here; it is kept as %s", path, kept)

    def delete_copy(self, directory: LogDirectory, key: TopicPartition) -> None:
        """Deletes a partition's copy, which a move would have put in its place."""
        self._removals.add(directory, directory.delete_future(*key))

    def let_go(self, keys: Iterable[TopicPartition]) -> None:
        """Has partitions that were lost be made again, since their topic is deleted; a misplaced
        directory is still in the way.
        """
        for key in keys:
            if not any(one.has_folder(*key) for one in self._directories.online):
                self.refused.pop(key, None)

    def forget(self, name: str, indexes: Iterable[int]) -> None:
        """Removes partitions from the checkpoints: an earlier log of the name may be there."""
        for part in parts_in_turns(indexes):
            self.forget_all([TopicPartition(name, index) for index in part])

    def forget_all(self, keys: Collection[TopicPartition]) -> None:
        """As `forget`, with one write for all of them."""
        for directory in self._directories:
            if not directory.is_offline:
                directory.checkpoints.forget(keys)
