"""One directory of `log.dirs`: its lock, its identity, its checkpoints, and the logs in it.

Format pages: docs/format/filenames.md. A crash leaves it without the clean-shutdown file, and
the next `open` recovers every log from its recovery point. Kafka's counterpart: `LogManager`, as
far as it concerns one directory.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from ottla.base.errors import CorruptionError, StorageError, UserError
from ottla.base.files import DiskSpace, FileLock, FileSystem, join, make_durable_directory
from ottla.base.ids import Uuid, uuid_text
from ottla.config.topic import TopicConfig
from ottla.storage.checkpoints import OffsetCheckpoint
from ottla.storage.clean_shutdown import (
    read_clean_shutdown,
    remove_clean_shutdown,
    write_clean_shutdown,
)
from ottla.storage.directory_health import DirectoryHealth, touches_disk
from ottla.storage.filenames import (
    CHECKPOINT_CLEANER,
    CHECKPOINT_HIGH_WATERMARK,
    CHECKPOINT_LOG_START,
    CHECKPOINT_RECOVERY_POINT,
    CLEAN_SHUTDOWN,
    LOCK,
    META_PROPERTIES,
    PARTITION_METADATA,
    DirectoryState,
    delete_directory_name,
    parse_directory_name,
    partition_directory_name,
)
from ottla.storage.meta_properties import (
    MetaProperties,
    read_meta_properties,
    write_meta_properties,
)
from ottla.storage.partition_log import PartitionLog
from ottla.storage.partition_metadata import read_topic_id, write_topic_id
from ottla.storage.recovery import LoadRequest, recover

logger = logging.getLogger(__name__)

TopicPartition = tuple[str, int]

NO_BROKER_EPOCH = -1


def _ignore_progress(_: str) -> None:
    pass


def run_in_turn(tasks: Sequence[Callable[[], object]]) -> None:
    for task in tasks:
        task()


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenOptions:
    """What a shell hands in: identity for a new directory, settings, chance, and a listener.

    `new_id` makes 16 random bytes; `random_below(n)` is a number from 0 to n - 1; `on_progress`
    hears a line for each step of a long recovery; `run_all` carries out the loading of all logs,
    which do not touch each other, and returns or raises when the last is done.
    """

    now_ms: int
    node_id: int
    cluster_id: str
    new_id: Callable[[], Uuid]
    random_below: Callable[[int], int]
    topic_config: Callable[[str], TopicConfig]
    on_progress: Callable[[str], None] = field(default=_ignore_progress)
    run_all: Callable[[Sequence[Callable[[], object]]], None] = field(default=run_in_turn)


class LogDirectory:
    """Opened exclusively; `close` ends with the clean-shutdown file."""

    def __init__(
        self,
        path: str,
        file_system: FileSystem,
        options: OpenOptions,
        *,
        lock: FileLock,
        properties: MetaProperties,
    ) -> None:
        self.path = path
        self.properties = properties
        self.health = DirectoryHealth(path)
        self.logs: dict[TopicPartition, PartitionLog] = {}
        self.topic_ids: dict[str, Uuid] = {}
        self.unnamed: dict[TopicPartition, StorageError] = {}
        """Partitions that are not served, since nobody can tell which topic's they are."""
        self.deleted_paths: list[str] = []
        self._file_system = file_system
        self._options = options
        self._lock: FileLock | None = lock
        self._recovery_points = OffsetCheckpoint(file_system, join(path, CHECKPOINT_RECOVERY_POINT))
        self._log_starts = OffsetCheckpoint(file_system, join(path, CHECKPOINT_LOG_START))
        self._high_watermarks = OffsetCheckpoint(file_system, join(path, CHECKPOINT_HIGH_WATERMARK))
        self._checkpointed_strangers: set[TopicPartition] = set()
        """Logs that are gone but may be in the checkpoints, where a new one of the name must not
        find the recovery point and the start of the old one."""
        self._cleaner_points = OffsetCheckpoint(file_system, join(path, CHECKPOINT_CLEANER))
        self.cleaned: dict[TopicPartition, int] = {}
        """Up to where each compacted log has been compacted; `move_cleaned` changes it."""

    @classmethod
    def open(cls, path: str, file_system: FileSystem, options: OpenOptions) -> "LogDirectory":
        """Makes the directory if needed, locks it, and loads (and mends) every log in it.

        Raises `UserError` when it is in use, unreadable, or somebody else's; nothing is changed
        then.
        """
        try:
            _refuse_foreign(file_system, path)
            make_durable_directory(file_system, path)
            lock = file_system.lock(join(path, LOCK))
        except OSError as error:
            raise UserError(
                f"{path}: {error.strerror}; name a directory that can be written"
            ) from error
        if lock is None:
            raise UserError(
                f"{path} is in use by another process; stop it, or name another directory"
            )
        health = DirectoryHealth(path)
        try:
            with health.guarding():
                properties = _read_or_make_properties(file_system, path, options)
        except BaseException:
            lock.release()
            raise
        directory = cls(path, file_system, options, lock=lock, properties=properties)
        try:
            directory._load_logs()
        except BaseException:
            directory.abandon()
            raise
        return directory

    @property
    def directory_id(self) -> Uuid | None:
        return self.properties.directory_id

    @property
    def cluster_id(self) -> str:
        return self.properties.cluster_id or ""

    @property
    def is_offline(self) -> bool:
        return self.health.failure is not None

    @touches_disk
    def _load_logs(self) -> None:
        marker = join(self.path, CLEAN_SHUTDOWN)
        was_clean = read_clean_shutdown(self._file_system, marker) is not None
        # Gone before anything is touched: a crash from here on must be seen as one.
        remove_clean_shutdown(self._file_system, marker)
        recovery_points = self._read_checkpoint(self._recovery_points)
        log_starts = self._read_checkpoint(self._log_starts)
        self.cleaned = self._read_checkpoint(self._cleaner_points)
        partitions = self._partitions()
        for key in partitions:
            self._take_topic_id(key)
        self._options.run_all(
            [
                partial(
                    self._load_log,
                    key,
                    was_clean_stop=was_clean,
                    recovery_point=recovery_points.get(key, 0),
                    log_start_offset=log_starts.get(key, 0),
                    cleaned_until=self.cleaned.get(key, 0),
                )
                for key in partitions
            ]
        )
        # Whichever was ready first: everything that goes through the logs does so in one order.
        self.logs = {key: self.logs[key] for key in partitions}
        self._distrust_cleaner_points()
        self._checkpointed_strangers = (
            recovery_points.keys() | log_starts.keys()
        ) - self.logs.keys()

    def _distrust_cleaner_points(self) -> None:
        """Forgets those behind a log's end: what comes in below them was never compacted.

        Were it taken for compacted, its tombstones could go before the values that they delete.
        """
        wrong = [
            key
            for key, offset in self.cleaned.items()
            if key in self.logs and offset > self.logs[key].log_end_offset
        ]
        for key in wrong:
            logger.warning("%s-%d ends before it was compacted: it will be anew", *key)
            self.move_cleaned(key, None)

    def _partitions(self) -> list[TopicPartition]:
        """The partitions that are here; what waits to be removed is put down in `deleted_paths`."""
        found = []
        for name in self._file_system.list(self.path):
            parsed = parse_directory_name(name)
            path = join(self.path, name)
            status = self._file_system.status(path)
            if parsed is None or status is None or not status.is_directory:
                continue
            if parsed.state is DirectoryState.DELETE:
                self.deleted_paths.append(path)
            elif parsed.state is DirectoryState.LIVE and not self._undo_creation(path):
                found.append((parsed.topic, parsed.partition))
        return found

    def _undo_creation(self, path: str) -> bool:
        """Removes a partition whose `create_log` a crash cut off before it had its topic's id.

        The next one of that name would otherwise stand beside others of its topic without the id.
        """
        names = self._file_system.list(path)
        if any(name != PARTITION_METADATA + ".tmp" for name in names):
            return False
        for name in names:
            self._file_system.remove(join(path, name))
        self._file_system.remove_directory(path)
        return True

    def _read_checkpoint(self, checkpoint: OffsetCheckpoint) -> dict[TopicPartition, int]:
        """A damaged checkpoint costs a longer recovery, never data (as in Kafka)."""
        try:
            return checkpoint.read()
        except CorruptionError as error:
            logger.warning("%s; it is taken as empty", error)
            return {}

    def _take_topic_id(self, key: TopicPartition) -> None:
        """A damaged file is that partition's trouble only; Kafka takes the directory offline."""
        try:
            path = join(self.log_path(*key), PARTITION_METADATA)
            topic_id = read_topic_id(self._file_system, path)
        except CorruptionError as error:
            logger.error("%s; the partition is not served", error)
            self.unnamed[key] = StorageError(self.path, str(error))
            return
        if topic_id is not None:
            self.topic_ids[key[0]] = topic_id

    def name_again(self, topic: str, partition: int, topic_id: Uuid) -> None:
        """Replaces a partition's damaged topic id; it is served from now on."""
        path = join(self.log_path(topic, partition), PARTITION_METADATA)
        logger.warning("%s is damaged; it is made anew with the id %s", path, uuid_text(topic_id))
        with self.health.guarding():
            write_topic_id(self._file_system, path, topic_id)
        self.topic_ids[topic] = topic_id
        self.unnamed.pop((topic, partition), None)
        self.logs[topic, partition].health = self.health

    def _load_log(
        self,
        key: TopicPartition,
        *,
        was_clean_stop: bool,
        recovery_point: int = 0,
        log_start_offset: int = 0,
        cleaned_until: int = 0,
    ) -> PartitionLog:
        topic, partition = key
        directory = self.log_path(topic, partition)
        config = self._options.topic_config(topic)
        recovered = recover(
            LoadRequest(
                file_system=self._file_system,
                directory=directory,
                config=config,
                now_ms=self._options.now_ms,
                was_clean_stop=was_clean_stop,
                recovery_point=recovery_point,
                log_start_offset=log_start_offset,
                cleaned_until=cleaned_until,
                on_progress=self._options.on_progress,
            )
        )
        log = PartitionLog(
            self._file_system,
            directory,
            config,
            recovered,
            health=self.health,
            random_below=self._options.random_below,
        )
        log.on_cut = partial(self._keep_cut, key)
        if key in self.unnamed:
            log.health = DirectoryHealth(self.path)
            log.health.failure = self.unnamed[key]
        self.logs[key] = log
        return log

    def log_path(self, topic: str, partition: int) -> str:
        return join(self.path, partition_directory_name(topic, partition))

    @touches_disk
    def create_log(self, topic: str, partition: int, topic_id: Uuid) -> PartitionLog:
        """Makes a partition's directory and its empty log."""
        assert (topic, partition) not in self.logs
        if (topic, partition) in self._checkpointed_strangers:
            self.checkpoint()
        self.move_cleaned((topic, partition), None)
        directory = self.log_path(topic, partition)
        make_durable_directory(self._file_system, directory)
        write_topic_id(self._file_system, join(directory, PARTITION_METADATA), topic_id)
        self.topic_ids[topic] = topic_id
        return self._load_log((topic, partition), was_clean_stop=False)

    @touches_disk
    def delete_log(self, topic: str, partition: int) -> str:
        """Renames the directory out of the way, and returns its new path for `remove_deleted`."""
        log = self.logs.pop((topic, partition))
        log.abandon()
        self.move_cleaned((topic, partition), None)
        path = join(self.path, delete_directory_name(topic, partition, self._options.new_id()))
        self._file_system.rename(log.directory, path)
        self._file_system.sync_directory(self.path)
        self._checkpointed_strangers.add((topic, partition))
        if not any(other == topic for other, _ in self.logs):
            self.topic_ids.pop(topic, None)
        return path

    @touches_disk
    def remove_deleted(self, path: str, max_count: int) -> int:
        """Removes files of a directory that `delete_log` renamed; returns how many.

        When there are fewer than `max_count`, the directory itself goes too.
        """
        names = self._file_system.list(path)
        for name in names[:max_count]:
            self._file_system.remove(join(path, name))
        if len(names) < max_count:
            self._file_system.remove_directory(path)
        return min(len(names), max_count)

    @touches_disk
    def disk_space(self) -> DiskSpace:
        """The size of the disk that the directory is on, and what is free of it."""
        return self._file_system.space(self.path)

    @touches_disk
    def checkpoint(self) -> None:
        """Records recovery points, log starts and high watermarks for the next start."""
        # The starts first: a recovery point is at least the start, whatever is flushed, and would
        # keep a crash in between from recovering what the older start still shows.
        self.checkpoint_log_starts()
        logs = self.logs.items()
        self._recovery_points.write({key: log.offsets.recovery_point for key, log in logs})
        self._high_watermarks.write({key: log.high_watermark for key, log in logs})
        self._checkpointed_strangers.clear()

    @touches_disk
    def checkpoint_log_starts(self) -> None:
        """Records where logs start that do not start with their first segment."""
        self._log_starts.write(
            {
                key: log.log_start_offset
                for key, log in self.logs.items()
                if log.log_start_offset > log.segments.first.base_offset
            }
        )

    def _keep_cut(self, key: TopicPartition) -> None:
        """A log was cut from behind, and goes on with what is not compacted."""
        self.checkpoint()
        active = self.logs[key].segments.active.base_offset if key in self.logs else 0
        if self.cleaned.get(key, 0) > active:
            self.move_cleaned(key, active)

    @touches_disk
    def move_cleaned(self, key: TopicPartition, offset: int | None) -> None:
        """Records up to where a log is compacted; `None` forgets it."""
        if self.cleaned.get(key) == offset:
            return
        if offset is None:
            del self.cleaned[key]
        else:
            self.cleaned[key] = offset
        # Logs that are gone are left out, or a new one of the name would find their offsets.
        self._cleaner_points.write(
            {key: offset for key, offset in self.cleaned.items() if key in self.logs}
        )

    def close(self) -> None:
        """Flushes and closes every log; the clean-shutdown file is the last thing written.

        A directory that went offline is only unlocked, so that the next start recovers it.
        """
        try:
            self._close_logs()
        except StorageError:
            self._abandon_logs()
        self._release()

    @touches_disk
    def _close_logs(self) -> None:
        for key, log in self.logs.items():
            if key in self.unnamed:
                # Nothing was done to it, so nothing need be written.
                log.abandon()
            else:
                log.close()
        self.checkpoint()
        write_clean_shutdown(self._file_system, join(self.path, CLEAN_SHUTDOWN), NO_BROKER_EPOCH)

    def abandon(self) -> None:
        """Lets go of everything as a crash would: nothing is flushed, no marker is written."""
        self._abandon_logs()
        self._release()

    def _abandon_logs(self) -> None:
        for log in self.logs.values():
            log.abandon()

    def _release(self) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None


def _refuse_foreign(file_system: FileSystem, path: str) -> None:
    """A directory with files but without Kafka's marks is not ours to write into."""
    status = file_system.status(path)
    if status is None:
        return
    if not status.is_directory:
        raise UserError(f"{path} is a file; name a directory")
    names = file_system.list(path)
    if META_PROPERTIES in names:
        return
    strangers = [
        name
        for name in names
        if name not in (LOCK, "lost+found")
        and parse_directory_name(name) is None
        and not name.endswith((".tmp", "-checkpoint"))
    ]
    if strangers:
        raise UserError(
            f"{path} holds files that are no Kafka log ({', '.join(strangers[:3])}); "
            "name an empty or a new directory"
        )


def _read_or_make_properties(
    file_system: FileSystem, path: str, options: OpenOptions
) -> MetaProperties:
    file_path = join(path, META_PROPERTIES)
    try:
        properties = read_meta_properties(file_system, file_path)
    except CorruptionError as error:
        raise UserError(f"{error}; restore the file or name another directory") from error
    if properties is None:
        properties = MetaProperties(
            cluster_id=options.cluster_id,
            node_id=options.node_id,
            directory_id=options.new_id(),
        )
        write_meta_properties(file_system, file_path, properties, now_ms=options.now_ms)
    return properties
