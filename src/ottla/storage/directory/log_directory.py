"""One directory of `log.dirs`: its lock, its identity, its checkpoints, and the logs in it.

Format page: docs/format/filenames.md. A crash leaves it without the clean-shutdown file, and the
next `open` recovers every log from its recovery point. Kafka's counterpart: the part of
`LogManager` for one directory.
"""

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from ottla.base.errors import StorageError
from ottla.base.files import (
    DiskSpace,
    FileSystem,
    base_name,
    join,
    parent_directory,
    replace_file,
)
from ottla.base.ids import ZERO_UUID, Uuid, uuid_text
from ottla.base.partitions import TopicPartition
from ottla.base.turns import aside
from ottla.config.topic import TopicConfig
from ottla.storage.directory.directory_claim import Claim, claim_directory
from ottla.storage.directory.found_logs import (
    ACTIONS_ALONE,
    FoundLog,
    StartupAction,
    find_logs,
)
from ottla.storage.directory.log_checkpoints import LogCheckpoints
from ottla.storage.directory.log_loader import LogLoader
from ottla.storage.directory.open_options import OpenOptions
from ottla.storage.files.boot_note import (
    UNNOTED,
    BootNote,
    WrittenEnds,
    names_log,
    read_boot_note,
)
from ottla.storage.files.clean_shutdown import (
    NO_BROKER_EPOCH,
    read_clean_shutdown,
    remove_clean_shutdown,
    write_clean_shutdown,
)
from ottla.storage.files.directory_health import DirectoryHealth, changes_files, touches_disk
from ottla.storage.files.filenames import (
    CLEAN_SHUTDOWN,
    CLUSTER_METADATA_DIRECTORY,
    LOCK,
    PARTITION_METADATA,
    REPLICAS_MARK,
    DirectoryState,
    delete_directory_name,
    future_directory_name,
    parse_directory_name,
    partition_directory_name,
    stray_directory_name,
)
from ottla.storage.files.meta_properties import MetaProperties
from ottla.storage.files.partition_metadata import write_topic_id
from ottla.storage.log.partition_log import PartitionLog

logger = logging.getLogger(__name__)

GONE: Final = "the directory of the partition is gone"
COPY_GONE: Final = "the directory of the copy is gone"
GONE_LINE: Final = (
    "{folder} is gone, and {place} refused until a restart; the rest of {path} is served: stop the "
    "broker, put the directory back, or run `ottla log give-up {path} {place}`, and start it again"
)


def had_metadata_log(file_system: FileSystem, path: str) -> bool:
    """Whether a metadata log is known to have been in a directory that is not open: a note names
    one, or a member of a cluster was stopped cleanly, which it is once its log was opened.
    """
    is_member = file_system.status(join(path, REPLICAS_MARK)) is not None
    was_clean = file_system.status(join(path, CLEAN_SHUTDOWN)) is not None
    return (is_member and was_clean) or names_log(file_system, path, CLUSTER_METADATA_DIRECTORY)


class LogDirectory:
    """An exclusively opened log directory; `close` ends with the clean-shutdown file.

    `logs` are the partitions' logs, `futures` the copies of logs that are being moved here.
    """

    def __init__(
        self, path: str, file_system: FileSystem, options: OpenOptions, claim: Claim | None
    ) -> None:
        self.path = path
        self.properties = claim.properties if claim else MetaProperties()
        self.health = DirectoryHealth(path, self._gone_log)
        self.logs: dict[TopicPartition, PartitionLog] = {}
        self.futures: dict[TopicPartition, PartitionLog] = {}
        self.topic_ids: dict[str, Uuid] = {}
        self.refused: dict[TopicPartition, StorageError] = {}
        """Partitions that are not served, since their topic id is damaged, or their folder gone."""
        self.on_gone: Callable[[TopicPartition, StorageError], None] = lambda _, __: None
        """Called with a partition whose folder another program has removed."""
        self.deleted_paths: list[str] = []
        self.was_clean_stop = True
        """Whether the last broker shut down cleanly, so that nothing had to be recovered."""
        self.had_metadata_log = False
        """Whether a metadata log is known to have been here, as `had_metadata_log` has it."""
        self.previous_broker_epoch: int | None = None
        """The epoch of that broker, if it has noted one (KIP-966)."""
        self.broker_epoch = NO_BROKER_EPOCH
        """What the next start finds there: that of the last registration, also after uses without a
        cluster, which lose nothing either.
        """
        self.checkpoints = LogCheckpoints(file_system, self.health, self.logs, self.futures)
        self._loader = LogLoader(file_system, self.health, self.checkpoints, options)
        self._file_system = file_system
        self._options = options
        self._lock = claim.lock if claim else None
        self._note: BootNote | None = None
        self.written: WrittenEnds | None = None
        """What the last use has noted; `None` if the system was started again since."""
        self._metadata: PartitionLog | None = None

    @classmethod
    def open(cls, path: str, file_system: FileSystem, options: OpenOptions) -> "LogDirectory":
        """Creates the directory if needed, locks it, and loads (and repairs) every log in it.

        Raises `UserError` if it is in use, unreadable, or another program's, without changing
        anything.
        """
        directory = cls.claim(path, file_system, options)
        try:
            directory.load([(one, _action_alone(one)) for one in directory.find_logs()])
        except BaseException:
            directory.abandon()
            raise
        return directory

    @classmethod
    def claim(cls, path: str, file_system: FileSystem, options: OpenOptions) -> "LogDirectory":
        """Locks a directory without loading its logs; raises `UserError`."""
        return cls(path, file_system, options, claim_directory(file_system, path, options))

    @classmethod
    def offline(
        cls, path: str, file_system: FileSystem, options: OpenOptions, reason: str
    ) -> "LogDirectory":
        """A directory that could not be opened, and is not used until the next start."""
        directory = cls(path, file_system, options, None)
        directory.health.fail(OSError(reason))
        return directory

    @property
    def directory_id(self) -> Uuid | None:
        return self.properties.directory_id

    @property
    def is_offline(self) -> bool:
        return self.health.failure is not None

    @property
    def is_claimed(self) -> bool:
        """Whether its lock is held: from a claim until it is closed or abandoned."""
        return self._lock is not None

    # Loading

    @touches_disk
    def find_logs(self) -> list[FoundLog]:
        """Every partition directory here, in any state."""
        return find_logs(self._file_system, self.path)

    @touches_disk
    def load(self, found: Sequence[tuple[FoundLog, StartupAction]]) -> None:
        """Carries out the planned action for each directory of `find_logs`, and loads the logs."""
        marker = join(self.path, CLEAN_SHUTDOWN)
        left = read_clean_shutdown(self._file_system, marker)
        self.was_clean_stop = left is not None
        self.previous_broker_epoch = None if left is None else left.broker_epoch
        if self.previous_broker_epoch is not None:
            self.broker_epoch = self.previous_broker_epoch
        self.had_metadata_log = had_metadata_log(self._file_system, self.path)
        # Removed before anything is changed, so that a crash from here on is noticed.
        remove_clean_shutdown(self._file_system, marker)
        self._mark_replicas()
        self.written = read_boot_note(self._file_system, self.path)
        self.checkpoints.read()
        started = self._loader.start(found)
        self.topic_ids = started.topic_ids
        self.refused = started.unnamed
        self.deleted_paths = started.deleted_paths
        self._loader.load(
            started,
            self.logs,
            self.futures,
            was_clean_stop=self.was_clean_stop,
            written=self.written,
        )
        self._note_ends()

    def _note_ends(self) -> None:
        """Replaces the note of the boot, now that the logs are loaded."""
        # Not earlier: a recovery that is cut off leaves what a power failure has torn, and what is
        # lost after a kill.
        logs = [*self.logs.values(), *self.futures.values()]
        ends = {log.name: log.log_end_offset for log in logs}
        if self.written is not None and (end := self.written.of(CLUSTER_METADATA_DIRECTORY)):
            ends[CLUSTER_METADATA_DIRECTORY] = end
        elif self.had_metadata_log:
            ends[CLUSTER_METADATA_DIRECTORY] = 0  # its end is not known
        self._note = BootNote(self._file_system, self.path, ends)
        for log in logs:
            log.written_end = self._note.place(log.name, log.log_end_offset)

    def _mark_replicas(self) -> None:
        """Creates or removes the mark for readers that log ends here are not committed offsets."""
        mark = join(self.path, REPLICAS_MARK)
        is_marked = self._file_system.status(mark) is not None
        if self._options.is_replicated and not is_marked:
            replace_file(self._file_system, mark, b"")
        elif is_marked and not self._options.is_replicated:
            self._file_system.remove(mark)

    def name_again(self, topic: str, partition: int, topic_id: Uuid) -> None:
        """Replaces a partition's damaged topic id; the partition is served from then on."""
        path = join(self.log_path(topic, partition), PARTITION_METADATA)
        logger.warning("%s is damaged; it is rewritten with the id %s", path, uuid_text(topic_id))
        with self.health.guarding():
            write_topic_id(self._file_system, path, topic_id)
        self.topic_ids[topic] = topic_id
        self.refused.pop(TopicPartition(topic, partition), None)
        self.logs[TopicPartition(topic, partition)].health = self.health

    def log_path(self, topic: str, partition: int) -> str:
        return join(self.path, partition_directory_name(topic, partition))

    def has_folder(self, topic: str, partition: int) -> bool:
        """Whether a partition's directory is there, of whatever topic."""
        with self.health.guarding():
            return self._file_system.status(self.log_path(topic, partition)) is not None

    def lend_claim(self) -> int | None:
        """A descriptor of the lock for a worker process; the lock is held until that ends too."""
        return None if self._lock is None else self._lock.lend()

    # The metadata log

    @changes_files
    def open_metadata_log(
        self, config: TopicConfig, file_system: FileSystem | None = None
    ) -> PartitionLog:
        """Opens or creates the log of `__cluster_metadata-0`, which `close` closes; by other files
        if another thread uses it than the rest of the directory.

        It must be sound, but for a torn end. Raises `StorageError`.
        """
        if self._metadata is None:
            self._metadata = self._loader.open_metadata_log(
                config, file_system, was_clean_stop=self.was_clean_stop, written=self.written
            )
            self._note_log(self._metadata)
        return self._metadata

    # Creating, moving and deleting logs

    @touches_disk
    def create_log(
        self, topic: str, partition: int, topic_id: Uuid, *, is_synced: bool = True
    ) -> PartitionLog:
        """Creates a partition's directory and its empty log.

        A caller that creates several logs may pass `is_synced=False` and call `sync_names` once
        before it responds.
        """
        assert (topic, partition) not in self.logs
        path = self.log_path(topic, partition)
        if not is_synced:
            self._file_system.make_directory(path)
        log = self._loader.create(path, TopicPartition(topic, partition), topic_id, 0)
        self._note_log(log)
        self.topic_ids[topic] = topic_id
        self.logs[TopicPartition(topic, partition)] = log
        return log

    @touches_disk
    def sync_names(self) -> None:
        """Makes created and renamed partition directories durable."""
        aside(lambda: self._file_system.sync_directory(self.path))

    @touches_disk
    def create_future(
        self, topic: str, partition: int, topic_id: Uuid, start_offset: int
    ) -> PartitionLog:
        """Creates an empty copy of a partition whose log is in another directory."""
        assert (topic, partition) not in self.logs.keys() | self.futures.keys()
        name = future_directory_name(topic, partition, self._options.new_id())
        path = join(self.path, name)
        log = self._loader.create(path, TopicPartition(topic, partition), topic_id, start_offset)
        self._note_log(log)
        self.futures[TopicPartition(topic, partition)] = log
        return log

    def _note_log(self, log: PartitionLog) -> None:
        if self._note is not None:
            log.written_end = self._note.place(log.name, log.log_end_offset)

    def _forget_end(self, log: PartitionLog) -> None:
        log.written_end = UNNOTED
        if self._note is not None:
            self._note.remove(log.name)

    @changes_files
    def delete_log(self, topic: str, partition: int, unique_id: bytes) -> str:
        """As `delete_logs`, for a log that is replaced by the copy with this id.

        From here on, the id shows a start that the move was decided.
        """
        key = TopicPartition(topic, partition)
        return self._put_away([key], lambda one: delete_directory_name(*one, unique_id))[0]

    @changes_files
    def delete_logs(self, keys: Sequence[TopicPartition], *, is_synced: bool = True) -> list[str]:
        """Renames partition directories to `-delete`; returns the paths for `remove_deleted`.

        The files stay open, since responses may still be sent from them; the caller closes them. It
        may pass `is_synced=False` and call `sync_names` later.
        """
        new_id = self._options.new_id
        return self._put_away(keys, lambda one: delete_directory_name(*one, new_id()), is_synced)

    @changes_files
    def set_aside(self, key: TopicPartition) -> str:
        """Closes a log that belongs to no topic here, and renames its directory to `-stray`, as
        which it is kept; returns the path. The caller calls `sync_names` later.
        """
        new_id = self._options.new_id
        self.logs[key].maintenance.close()
        names = [key]
        return self._put_away(names, lambda one: stray_directory_name(*one, new_id()), False)[0]

    def _put_away(
        self,
        keys: Sequence[TopicPartition],
        name_of: Callable[[TopicPartition], str],
        is_synced: bool = True,
    ) -> list[str]:
        paths = []
        for key in keys:
            log = self.logs[key]
            path = join(self.path, name_of(key))
            self._forget_end(log)
            if self._rename_away(log, path):
                log.maintenance.renamed(path)
            del self.logs[key]
            paths.append(path)
        if is_synced:
            self._file_system.sync_directory(self.path)
        self._forget(keys)
        return paths

    @changes_files
    def delete_future(self, topic: str, partition: int) -> str:
        """As `delete_log`, for the copy of a move that was cancelled, which has no readers."""
        key = TopicPartition(topic, partition)
        log = self.futures.pop(key)
        self._forget_end(log)
        log.maintenance.abandon()
        path = join(self.path, delete_directory_name(*key, self._options.new_id()))
        self._rename_away(log, path)
        self._file_system.sync_directory(self.path)
        self._forget([key])
        return path

    def _rename_away(self, log: PartitionLog, path: str) -> bool:
        """Renames a log's folder; returns whether it was there. If another program has removed it,
        nothing is left to do, and no file is opened by the old name any more.
        """
        try:
            self._file_system.rename(log.directory, path)
        except FileNotFoundError:
            if not self._is_only_missing(log.directory):
                raise
            log.health = DirectoryHealth(log.directory)
            log.health.failure = StorageError(log.directory, GONE)
            return False
        return True

    def _is_only_missing(self, path: str) -> bool:
        """Whether a path here is missing, and the directory itself is not: without the lock's file
        nothing is there, as on a disk that is not mounted any more.
        """
        kept = (self._file_system.status(one) for one in (path, join(self.path, LOCK)))
        return [one is not None for one in kept] == [False, True]

    def _forget(self, keys: Sequence[TopicPartition]) -> None:
        self.checkpoints.deleted(keys)
        for key in self.refused.keys() & keys - self.logs.keys():
            del self.refused[key]
        gone = {topic for topic, _ in keys}
        for topic, _ in self.logs:  # thousands; one of the first is mostly of the same topic
            gone.discard(topic)
            if not gone:
                break
        for topic in gone:
            self.topic_ids.pop(topic, None)

    @changes_files
    def adopt_future(self, topic: str, partition: int, topic_id: Uuid) -> PartitionLog:
        """Makes a copy the partition's log, durably."""
        key = TopicPartition(topic, partition)
        log = self.futures[key]
        self._forget_end(log)
        log.maintenance.renamed(
            self._loader.rename(log.directory, partition_directory_name(topic, partition))
        )
        self._note_log(log)
        self.logs[key] = self.futures.pop(key)
        if topic_id != ZERO_UUID:
            self.topic_ids[topic] = topic_id
        return log

    @touches_disk
    def remove_deleted(self, path: str, max_count: int) -> int:
        """Removes up to `max_count` files of a directory that `delete_log` renamed.

        Returns how many; if there are fewer, removes the directory too. Another program may have
        removed it before.
        """
        try:
            names = self._file_system.some_files(path, max_count)
            for name in names:
                self._file_system.remove(join(path, name))
            if len(names) < max_count:
                if others := self._file_system.list(path):
                    logger.warning("%s stays: %s is not a file of a log", path, others[0])
                else:
                    self._file_system.remove_directory(path)
        except FileNotFoundError:
            if self._is_only_missing(path):
                return 0
            raise
        return len(names)

    # The directory

    @touches_disk
    def disk_space(self) -> DiskSpace:
        """The size and free space of the directory's file system."""
        return self._file_system.space(self.path)

    def close(self) -> None:
        """Flushes and closes every log, then writes the clean-shutdown file.

        A directory that is offline is only unlocked, so that the next start recovers it.
        """
        try:
            self._close_logs()
        except StorageError:
            self._abandon_logs()
        self._release()

    @touches_disk
    def _close_logs(self) -> None:
        for key in self.refused.keys() & self.logs.keys():
            # It is not served, so there is nothing to write.
            self.logs[key].maintenance.abandon()
        logs = [log for key, log in self.logs.items() if key not in self.refused]
        logs += self.futures.values()
        logs += [] if self._metadata is None else [self._metadata]
        left = count = len(logs)

        def close(log: PartitionLog) -> None:
            nonlocal left
            log.maintenance.close()
            left -= 1
            self._options.on_progress(f"closing {self.path}: {left} of {count} logs left")

        self._options.run_all([partial(close, log) for log in logs])
        self.checkpoints.write()
        if self._is_recovered():
            mark = join(self.path, CLEAN_SHUTDOWN)
            write_clean_shutdown(self._file_system, mark, self.broker_epoch)

    def _gone_log(self, error: FileNotFoundError) -> StorageError | None:
        """What to raise if the folder of a log is gone, and the directory itself is not: the log is
        not touched any more, and the others are served. Kafka takes the directory offline.
        """
        path = str(error.filename or "")
        names = map(parse_directory_name, map(base_name, (path, parent_directory(path))))
        name = next((one for one in names if one is not None), None)
        if name is None or name.state not in (DirectoryState.LIVE, DirectoryState.FUTURE):
            return None
        is_copy = name.state is DirectoryState.FUTURE
        key = TopicPartition(name.topic, name.partition)
        log = (self.futures if is_copy else self.logs).get(key)
        if log is None or log.health.failure is not None:
            return None if log is None else log.health.failure
        if not self._is_only_missing(log.directory):
            return None
        gone = StorageError(log.directory, COPY_GONE if is_copy else GONE)
        log.health = DirectoryHealth(log.directory)
        log.health.failure = gone
        if not is_copy:
            self.refused[key] = gone
            logger.error("%s", GONE_LINE.format(folder=log.directory, place=key, path=self.path))
            self.on_gone(key, gone)
        return gone

    def _is_recovered(self) -> bool:
        """A start that fails may end before the metadata log is opened, and its end still torn."""
        if self.was_clean_stop or self._metadata is not None or self._options.is_in_zookeeper:
            return True
        folder = join(self.path, CLUSTER_METADATA_DIRECTORY)
        return self._file_system.status(folder) is None

    def abandon(self) -> None:
        """Closes everything as a crash would, without a flush or a clean-shutdown file."""
        self._abandon_logs()
        self._release()

    def _abandon_logs(self) -> None:
        for log in (*self.logs.values(), *self.futures.values()):
            log.maintenance.abandon()
        if self._metadata is not None:
            self._metadata.maintenance.abandon()

    def _release(self) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None


def _action_alone(one: FoundLog) -> StartupAction:
    if one.obstacle is not None:
        logger.error("%s; the partition is not served", one.obstacle)
        return StartupAction.KEEP
    return ACTIONS_ALONE[one.name.state]
