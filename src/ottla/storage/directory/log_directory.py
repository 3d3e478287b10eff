"""One directory of `log.dirs`: its lock, its identity, its checkpoints, and the logs in it.

Format pages: docs/format/filenames.md. A crash leaves it without the clean-shutdown file, and
the next `open` recovers every log from its recovery point. Kafka's counterpart: `LogManager`, as
far as it concerns one directory.
"""

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial

from ottla.base.errors import StorageError
from ottla.base.files import DiskSpace, FileSystem, base_name, join, make_durable_directory
from ottla.base.ids import ZERO_UUID, Uuid, uuid_text
from ottla.base.partitions import TopicPartition
from ottla.base.turns import aside
from ottla.storage.directory.directory_claim import Claim, Identity, claim_directory
from ottla.storage.directory.found_logs import (
    ACTIONS_ALONE,
    LOADED,
    FoundLog,
    StartupAction,
    find_logs,
)
from ottla.storage.directory.open_options import OpenOptions
from ottla.storage.files.checkpoints import OffsetCheckpoint
from ottla.storage.files.clean_shutdown import (
    read_clean_shutdown,
    remove_clean_shutdown,
    write_clean_shutdown,
)
from ottla.storage.files.directory_health import DirectoryHealth, changes_files, touches_disk
from ottla.storage.files.filenames import (
    CHECKPOINT_CLEANER,
    CHECKPOINT_HIGH_WATERMARK,
    CHECKPOINT_RECOVERY_POINT,
    CLEAN_SHUTDOWN,
    PARTITION_METADATA,
    DirectoryState,
    delete_directory_name,
    future_directory_name,
    parse_directory_name,
    partition_directory_name,
    stray_directory_name,
)
from ottla.storage.files.log_starts import LogStarts
from ottla.storage.files.meta_properties import MetaProperties
from ottla.storage.files.partition_metadata import write_topic_id
from ottla.storage.log.partition_log import PartitionLog
from ottla.storage.recovery.recovery import LoadRequest, recover

logger = logging.getLogger(__name__)

NO_BROKER_EPOCH = -1


class LogDirectory:
    """Opened exclusively; `close` ends with the clean-shutdown file.

    `logs` are the partitions' own, `futures` the copies of those that are moving here.
    """

    def __init__(
        self, path: str, file_system: FileSystem, options: OpenOptions, claim: Claim | None
    ) -> None:
        self.path = path
        self.properties = claim.properties if claim else MetaProperties()
        self.health = DirectoryHealth(path)
        self.logs: dict[TopicPartition, PartitionLog] = {}
        self.futures: dict[TopicPartition, PartitionLog] = {}
        self.topic_ids: dict[str, Uuid] = {}
        self.unnamed: dict[TopicPartition, StorageError] = {}
        """Partitions that are not served, since nobody can tell which topic's they are."""
        self.deleted_paths: list[str] = []
        self._file_system = file_system
        self._options = options
        self._lock = claim.lock if claim else None
        self._recovery_points = OffsetCheckpoint(file_system, join(path, CHECKPOINT_RECOVERY_POINT))
        self._log_starts = LogStarts(file_system, path)
        self._high_watermarks = OffsetCheckpoint(file_system, join(path, CHECKPOINT_HIGH_WATERMARK))
        self._checkpointed_strangers: set[TopicPartition] = set()
        """Logs that are gone but may be in the checkpoints, where a new one of the name must not
        find the recovery point and the start of the old one."""
        self.checkpointed: Mapping[TopicPartition, int] = {}
        """The recovery points as the start found them: of each log that was here by then."""
        self._refused: dict[TopicPartition, tuple[int, int]] = {}
        """Recovery points and starts of logs that should be here and are not."""
        self._cleaner_points = OffsetCheckpoint(file_system, join(path, CHECKPOINT_CLEANER))
        self.cleaned: dict[TopicPartition, int] = {}
        """Up to where each compacted log has been compacted; `move_cleaned` changes it."""

    @classmethod
    def open(cls, path: str, file_system: FileSystem, options: OpenOptions) -> "LogDirectory":
        """Makes the directory if needed, locks it, and loads (and mends) every log in it.

        Raises `UserError` when it is in use, unreadable, or somebody else's; nothing is changed
        then.
        """
        directory = cls.claim(path, file_system, options)
        try:
            directory.load([(one, ACTIONS_ALONE[one.name.state]) for one in directory.find_logs()])
        except BaseException:
            directory.abandon()
            raise
        return directory

    @classmethod
    def claim(cls, path: str, file_system: FileSystem, options: OpenOptions) -> "LogDirectory":
        """A directory that is ours, and whose logs are still to be loaded; raises `UserError`."""
        identity = Identity(
            node_id=options.node_id,
            cluster_id=options.cluster_id,
            new_id=options.new_id,
            now_ms=options.now_ms,
        )
        return cls(path, file_system, options, claim_directory(file_system, path, identity))

    @classmethod
    def offline(
        cls, path: str, file_system: FileSystem, options: OpenOptions, reason: str
    ) -> "LogDirectory":
        """A directory that could not be had, and is nobody's until the next start."""
        directory = cls(path, file_system, options, None)
        directory.health.fail(OSError(reason))
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

    # Loading

    @touches_disk
    def find_logs(self) -> list[FoundLog]:
        """Every directory here that has a partition's name, whatever state it is in."""
        return find_logs(self._file_system, self.path)

    @touches_disk
    def load(self, found: Sequence[tuple[FoundLog, StartupAction]]) -> None:
        """Does with each directory of `find_logs` what was planned, and loads what is a log."""
        marker = join(self.path, CLEAN_SHUTDOWN)
        was_clean = read_clean_shutdown(self._file_system, marker) is not None
        # Gone before anything is touched: a crash from here on must be seen as one.
        remove_clean_shutdown(self._file_system, marker)
        recovery_points = self._recovery_points.read_if_whole()
        self.checkpointed = recovery_points
        self._log_starts.read()
        high_watermarks = self._high_watermarks.read_if_whole()
        self.cleaned = self._cleaner_points.read_if_whole()
        paths, future_paths = self._settle(found)
        found_logs = {one.key: one for one, action in found if action in LOADED}
        log_starts = {
            key: self._log_starts.start_of(key, is_witnessed=one.witness is not None)
            for key, one in found_logs.items()
        }
        self._log_starts.keep(log_starts)
        left = count = len(paths) + len(future_paths)

        def on_progress(step: str) -> None:
            self._options.on_progress(f"recovering {step}; {left} of {count} logs left")

        def load(key: TopicPartition, path: str, logs: dict[TopicPartition, PartitionLog]) -> None:
            nonlocal left
            request = replace(
                self._new_request(path),
                was_clean_stop=was_clean,
                recovery_point=recovery_points.get(key, 0),
                log_start_offset=log_starts[key],
                high_watermark=high_watermarks.get(key),
                cleaned_until=self.cleaned.get(key, 0),
                topic_id=found_logs[key].topic_id,
                witness=found_logs[key].witness,
                on_progress=on_progress,
            )
            logs[key] = self._load_log(request, key)
            left -= 1
            self._options.on_progress(f"loading {self.path}: {left} of {count} logs left")

        tasks = [partial(load, key, path, self.logs) for key, path in paths.items()]
        tasks += [partial(load, key, path, self.futures) for key, path in future_paths.items()]
        self._options.run_all(tasks)
        # Whichever was ready first: everything that goes through the logs does so in one order.
        self.logs = {key: self.logs[key] for key in paths}
        self.futures = {key: self.futures[key] for key in future_paths}
        for key, log in self.logs.items():
            if key in self.unnamed:
                log.health = DirectoryHealth(self.path)
                log.health.failure = self.unnamed[key]
        self._distrust_cleaner_points()
        self._checkpointed_strangers = (
            (recovery_points.keys() | self._log_starts.known)
            - self.logs.keys()
            - self.futures.keys()
        )

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

    def _settle(
        self, found: Sequence[tuple[FoundLog, StartupAction]]
    ) -> tuple[dict[TopicPartition, str], dict[TopicPartition, str]]:
        """Renames what is to have another name; returns where logs and copies are."""
        paths: dict[TopicPartition, str] = {}
        futures: dict[TopicPartition, str] = {}
        for one, action in found:
            key = one.key
            match action:
                case StartupAction.LOAD | StartupAction.PROMOTE:
                    paths[key] = self._rename(one.path, partition_directory_name(*key))
                    self._take_topic_id(key, one)
                case StartupAction.COPY:
                    futures[key] = one.path
                case StartupAction.STRAY:
                    path = self._rename(
                        one.path, stray_directory_name(*key, self._options.new_id())
                    )
                    logger.warning("%s belongs to no topic here; it is kept as %s", one.path, path)
                case StartupAction.REMOVE:
                    path = one.path
                    if one.name.state is not DirectoryState.DELETE:
                        path = self._rename(
                            path, delete_directory_name(*key, self._options.new_id())
                        )
                    self.deleted_paths.append(path)
                case StartupAction.KEEP:
                    logger.warning("%s is left as it is", one.path)
        return paths, futures

    def _take_topic_id(self, key: TopicPartition, one: FoundLog) -> None:
        if one.topic_id is not None:
            self.topic_ids[key[0]] = one.topic_id
        elif one.damage is not None:
            logger.error("%s; the partition is not served", one.damage)
            self.unnamed[key] = StorageError(self.path, str(one.damage))

    def _rename(self, path: str, name: str) -> str:
        """Gives a partition's directory another name, durably; returns its path then."""
        target = join(self.path, name)
        if target != path:
            self._file_system.rename(path, target)
            self._file_system.sync_directory(self.path)
        return target

    def name_again(self, topic: str, partition: int, topic_id: Uuid) -> None:
        """Replaces a partition's damaged topic id; it is served from now on."""
        path = join(self.log_path(topic, partition), PARTITION_METADATA)
        logger.warning("%s is damaged; it is made anew with the id %s", path, uuid_text(topic_id))
        with self.health.guarding():
            write_topic_id(self._file_system, path, topic_id)
        self.topic_ids[topic] = topic_id
        self.unnamed.pop(TopicPartition(topic, partition), None)
        self.logs[TopicPartition(topic, partition)].health = self.health

    def _new_request(self, path: str) -> LoadRequest:
        """Of a log of which nothing is known but where it is."""
        name = parse_directory_name(base_name(path))
        assert name is not None
        return LoadRequest(
            file_system=self._file_system,
            directory=path,
            config=self._options.topic_config(name.topic),
            now_ms=self._options.now_ms,
            was_clean_stop=False,
            recovery_point=0,
            log_start_offset=0,
        )

    def _load_log(self, request: LoadRequest, key: TopicPartition) -> PartitionLog:
        log = PartitionLog(
            recover(request),
            health=self.health,
            random_below=self._options.random_below,
            on_cut=partial(self._keep_cut, key),
        )
        log.maintenance.let_go_of_files()  # 10,000 partitions nobody uses need no descriptor
        return log

    def log_path(self, topic: str, partition: int) -> str:
        return join(self.path, partition_directory_name(topic, partition))

    def lend_claim(self) -> int | None:
        """A descriptor for a process that works here: until it ends, nobody else may."""
        return None if self._lock is None else self._lock.lend()

    # Logs come, move and go

    def refuse(self, keys: Collection[TopicPartition]) -> None:
        """Keeps what the checkpoints say of partitions that are not served, for the next start."""
        starts = self._log_starts.checkpointed
        self._refused = {
            key: (point, starts.get(key, 0))
            for key, point in self.checkpointed.items()
            if key in keys and key not in self.logs
        }

    @touches_disk
    def forget(self, keys: Collection[TopicPartition]) -> None:
        """Takes partitions that are gone from the checkpoints.

        They would otherwise be taken for lost if a crash comes before new ones of their names are
        made.
        """
        is_refused = [self._refused.pop(key, None) is not None for key in keys]
        if any(is_refused) or not self._checkpointed_strangers.isdisjoint(keys):
            self.checkpoint()

    @touches_disk
    def create_log(
        self, topic: str, partition: int, topic_id: Uuid, *, is_synced: bool = True
    ) -> PartitionLog:
        """Makes a partition's directory and its empty log.

        Who makes several calls `sync_names` after them instead, before anybody hears of them.
        """
        assert (topic, partition) not in self.logs
        path = self.log_path(topic, partition)
        if not is_synced:
            self._file_system.make_directory(path)
        log = self._create(path, TopicPartition(topic, partition), topic_id, 0)
        self.topic_ids[topic] = topic_id
        self.logs[TopicPartition(topic, partition)] = log
        return log

    @touches_disk
    def sync_names(self) -> None:
        """Makes the names of partitions' directories durable."""
        aside(lambda: self._file_system.sync_directory(self.path))

    @touches_disk
    def create_future(
        self, topic: str, partition: int, topic_id: Uuid, start_offset: int
    ) -> PartitionLog:
        """Makes an empty log beside the partition's own, which is in another directory."""
        assert (topic, partition) not in self.logs.keys() | self.futures.keys()
        name = future_directory_name(topic, partition, self._options.new_id())
        path = join(self.path, name)
        log = self._create(path, TopicPartition(topic, partition), topic_id, start_offset)
        self.futures[TopicPartition(topic, partition)] = log
        return log

    def _create(
        self, path: str, key: TopicPartition, topic_id: Uuid, start_offset: int
    ) -> PartitionLog:
        if key in self._checkpointed_strangers:
            self.checkpoint()
        self.move_cleaned(key, None)
        make_durable_directory(self._file_system, path)
        if topic_id != ZERO_UUID:
            file_name = join(path, PARTITION_METADATA)
            aside(lambda: write_topic_id(self._file_system, file_name, topic_id))
        request = self._new_request(path)
        return self._load_log(
            replace(
                request,
                log_start_offset=start_offset,
                topic_id=None if topic_id == ZERO_UUID else topic_id,
            ),
            key,
        )

    @changes_files
    def delete_log(self, topic: str, partition: int, unique_id: bytes | None = None) -> str:
        """Renames the directory out of the way, and returns its new path for `remove_deleted`.

        The files stay open, for answers under way may still be sent from them; closing them is the
        caller's. `unique_id` is that of the copy which takes the log's place, if one does: from
        here on a start finds by it that the move was decided.
        """
        key = TopicPartition(topic, partition)
        log = self.logs[key]
        path = self._put_away(log, key, unique_id or self._options.new_id())
        log.maintenance.renamed(path)
        return path

    @changes_files
    def delete_future(self, topic: str, partition: int) -> str:
        """As `delete_log`, for a copy that nobody wants any more, and nobody reads."""
        key = TopicPartition(topic, partition)
        log = self.futures.pop(key)
        log.maintenance.abandon()
        return self._put_away(log, key, self._options.new_id())

    @changes_files
    def delete_logs(self, keys: Sequence[TopicPartition]) -> list[str]:
        """As `delete_log`, for several at a time."""
        paths = []
        for key in keys:
            log = self.logs[key]
            path = join(self.path, delete_directory_name(*key, self._options.new_id()))
            self._file_system.rename(log.directory, path)
            log.maintenance.renamed(path)
            del self.logs[key]
            paths.append(path)
        self._file_system.sync_directory(self.path)
        self._forget_deleted(keys)
        return paths

    def _put_away(self, log: PartitionLog, key: TopicPartition, unique_id: bytes) -> str:
        path = self._rename(log.directory, delete_directory_name(*key, unique_id))
        if self.logs.get(key) is log:
            del self.logs[key]
        self._forget_deleted([key])
        return path

    def _forget_deleted(self, keys: Sequence[TopicPartition]) -> None:
        self._checkpointed_strangers.update(keys)
        left = {topic for topic, _ in self.logs}
        for key in keys:
            self.move_cleaned(key, None)
            if key[0] not in left:
                self.topic_ids.pop(key[0], None)

    @changes_files
    def adopt_future(self, topic: str, partition: int, topic_id: Uuid) -> PartitionLog:
        """Makes a copy the partition's log."""
        key = TopicPartition(topic, partition)
        log = self.futures[key]
        log.maintenance.renamed(
            self._rename(log.directory, partition_directory_name(topic, partition))
        )
        self.logs[key] = self.futures.pop(key)
        if topic_id != ZERO_UUID:
            self.topic_ids[topic] = topic_id
        return log

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

    # The directory

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
        logs = (self.futures | self.logs).items()
        points = {key: log.offsets.recovery_point for key, log in logs}
        points.update((key, point) for key, (point, _) in self._refused.items())
        self._recovery_points.write(points)
        self._high_watermarks.write({key: log.high_watermark for key, log in logs})
        self._checkpointed_strangers.clear()

    @touches_disk
    def checkpoint_log_starts(self) -> None:
        """Records where logs start that do not start with their first segment."""
        starts = {
            key: log.log_start_offset
            for key, log in (self.futures | self.logs).items()
            if log.offsets.is_front_unsynced
            or log.log_start_offset > log.segments.first.base_offset
        }
        starts.update((key, start) for key, (_, start) in self._refused.items() if start)
        self._log_starts.write(starts)

    def _keep_cut(self, key: TopicPartition) -> None:
        """A log was cut at its end, and goes on with what is not compacted."""
        self.checkpoint()
        log = self.logs.get(key)
        if log is not None and self.cleaned.get(key, 0) > log.segments.active.base_offset:
            self.move_cleaned(key, log.segments.active.base_offset)

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
        known = self.logs.keys() | self.futures.keys()
        self._cleaner_points.write({one: at for one, at in self.cleaned.items() if one in known})

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
        for key in self.unnamed.keys() & self.logs.keys():
            # Nothing was done to it, so nothing need be written.
            self.logs[key].maintenance.abandon()
        logs = [log for key, log in self.logs.items() if key not in self.unnamed]
        logs += self.futures.values()
        left = count = len(logs)

        def close(log: PartitionLog) -> None:
            nonlocal left
            log.maintenance.close()
            left -= 1
            self._options.on_progress(f"closing {self.path}: {left} of {count} logs left")

        self._options.run_all([partial(close, log) for log in logs])
        self.checkpoint()
        write_clean_shutdown(self._file_system, join(self.path, CLEAN_SHUTDOWN), NO_BROKER_EPOCH)

    def abandon(self) -> None:
        """Lets go of everything as a crash would: nothing is flushed, no marker is written."""
        self._abandon_logs()
        self._release()

    def _abandon_logs(self) -> None:
        for log in (*self.logs.values(), *self.futures.values()):
            log.maintenance.abandon()

    def _release(self) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None
