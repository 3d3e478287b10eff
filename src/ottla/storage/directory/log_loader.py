"""Opens the logs of a directory: all existing ones at its start, and each created one later.

Kafka's counterpart: `LogManager.loadLogs` and `getOrCreateLog`, for one directory.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from functools import partial

from ottla.base.errors import StorageError
from ottla.base.files import FileSystem, base_name, join, make_durable_directory, replace_file
from ottla.base.ids import ZERO_UUID, Uuid
from ottla.base.partitions import TopicPartition
from ottla.base.turns import aside
from ottla.base.values import dataclass
from ottla.config.topic import TopicConfig
from ottla.storage.directory.found_logs import LOADED, FoundLog, StartupAction, clear_others
from ottla.storage.directory.log_checkpoints import LogCheckpoints
from ottla.storage.directory.open_options import OpenOptions, StartStep
from ottla.storage.files.boot_note import WrittenEnds
from ottla.storage.files.directory_health import DirectoryHealth
from ottla.storage.files.filenames import (
    CLUSTER_METADATA,
    CLUSTER_METADATA_DIRECTORY,
    CLUSTER_METADATA_ID,
    METADATA_MARK,
    PARTITION_METADATA,
    DirectoryState,
    delete_directory_name,
    parse_directory_name,
    partition_directory_name,
    stray_directory_name,
)
from ottla.storage.files.integrity import is_integrity_lost, read_integrity
from ottla.storage.files.partition_metadata import write_topic_id
from ottla.storage.log.partition_log import PartitionLog
from ottla.storage.recovery.opened_log import LoadRequest
from ottla.storage.recovery.recovery import recover

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class StartedDirectory:
    """The paths of logs and copies after the startup actions, in the order in which they are found.

    `unnamed` are partitions that are not served, since their topic id is damaged.
    """

    found: dict[TopicPartition, FoundLog] = field(default_factory=dict)
    log_paths: dict[TopicPartition, str] = field(default_factory=dict)
    future_paths: dict[TopicPartition, str] = field(default_factory=dict)
    topic_ids: dict[str, Uuid] = field(default_factory=dict)
    unnamed: dict[TopicPartition, StorageError] = field(default_factory=dict)
    deleted_paths: list[str] = field(default_factory=list)


class LogLoader:
    """Opens and creates logs; all methods raise `OSError`."""

    def __init__(
        self,
        file_system: FileSystem,
        health: DirectoryHealth,
        checkpoints: LogCheckpoints,
        options: OpenOptions,
    ) -> None:
        self._file_system = file_system
        self._path = health.directory
        self._health = health
        self._checkpoints = checkpoints
        self._options = options

    # At the start

    def start(self, found: Sequence[tuple[FoundLog, StartupAction]]) -> StartedDirectory:
        """Renames directories as their actions require; loads nothing."""
        started = StartedDirectory()
        for one, action in found:
            key = one.key
            if action in LOADED:
                started.found[key] = one
            match action:
                case StartupAction.LOAD | StartupAction.PROMOTE:
                    started.log_paths[key] = self.rename(one.path, partition_directory_name(*key))
                    if one.topic_id is not None:
                        started.topic_ids[key.topic] = one.topic_id
                    elif one.damage is not None:
                        logger.error("%s; the partition is not served", one.damage.text)
                        started.unnamed[key] = StorageError(self._path, one.damage.text)
                case StartupAction.COPY:
                    started.future_paths[key] = one.path
                case StartupAction.STRAY:
                    name = stray_directory_name(*key, self._options.new_id())
                    path = self.rename(one.path, name)
                    logger.warning("%s belongs to no topic here; it is kept as %s", one.path, path)
                case StartupAction.REMOVE:
                    path = one.path
                    if one.name.state is not DirectoryState.DELETE:
                        path = self.rename(
                            path, delete_directory_name(*key, self._options.new_id())
                        )
                    started.deleted_paths.append(path)
                case StartupAction.KEEP:
                    logger.warning("%s is left unchanged", one.path)
        return started

    def load(
        self,
        started: StartedDirectory,
        logs: dict[TopicPartition, PartitionLog],
        futures: dict[TopicPartition, PartitionLog],
        *,
        was_clean_stop: bool,
        written: WrittenEnds | None,
    ) -> None:
        """Loads the logs into `logs`, and the copies into `futures`.

        `written` are their ends if the system was not started again since, else `None`.
        """
        starts = self._checkpoints.starts_of(started.found, self._is_tiered)
        is_kafka_gone = any(one.integrity is not None for one in started.found.values())
        left = count = len(started.log_paths) + len(started.future_paths)

        segments: dict[str, int] = {}

        def report(text: str) -> None:
            step = StartStep.of(
                f"{text}{left} of {count} logs left", self._path, left, sum([*segments.values()])
            )
            self._options.on_progress(step)

        def recovering(log_path: str, path: str, segments_left: int) -> None:
            segments[log_path] = segments_left
            report(f"recovering {path} ({segments_left} left); ")

        def load(key: TopicPartition, path: str, into: dict[TopicPartition, PartitionLog]) -> None:
            nonlocal left
            integrity = started.found[key].integrity
            is_lost = integrity is None
            is_lost = is_lost and is_integrity_lost(self._file_system, path, is_kafka_gone)
            is_ours = integrity is not None or is_lost
            request = replace(
                self._checkpointed(key, path),
                was_clean_stop=was_clean_stop,
                is_same_boot=written is not None,
                # Kafka may have cut a log since.
                written_end=written.of(base_name(path)) if written and is_ours else 0,
                log_start_offset=starts[key],
                topic_id=started.found[key].topic_id,
                integrity=integrity,
                is_integrity_lost=is_lost,
                on_progress=partial(recovering, path),
            )
            into[key] = self._open(request, key, started.unnamed.get(key))
            left -= 1
            segments.pop(path, None)
            report(f"loading {self._path}: ")

        tasks = [partial(load, key, path, logs) for key, path in started.log_paths.items()]
        tasks += [partial(load, key, path, futures) for key, path in started.future_paths.items()]
        self._options.run_all(tasks)
        # Loading finishes in any order, but iteration over the logs should have a fixed order.
        _put_in_order(logs, started.log_paths)
        _put_in_order(futures, started.future_paths)
        self._checkpoints.loaded()

    def _is_tiered(self, topic: str) -> bool:
        return self._options.topic_config(topic).remote_storage_enable

    def _checkpointed(self, key: TopicPartition, path: str) -> LoadRequest:
        checkpoints = self._checkpoints
        point = checkpoints.recovery_points.get(key)
        return replace(
            self._new_request(path),
            recovery_point=point or 0,
            reached=checkpoints.named.offset_of(key) or 0 if point is None else 0,
            high_watermark=checkpoints.high_watermarks.get(key),
            cleaned_until=checkpoints.cleaned.get(key, 0),
        )

    # After the start

    def create(
        self, path: str, key: TopicPartition, topic_id: Uuid, start_offset: int
    ) -> PartitionLog:
        """Creates a partition's directory, if it does not exist, and its empty log."""
        self._checkpoints.before_creation(key)
        make_durable_directory(self._file_system, path)
        if topic_id != ZERO_UUID:
            file_name = join(path, PARTITION_METADATA)
            aside(lambda: write_topic_id(self._file_system, file_name, topic_id))
        request = replace(
            self._new_request(path),
            log_start_offset=start_offset,
            topic_id=None if topic_id == ZERO_UUID else topic_id,
        )
        return self._open(request, key)

    def open_metadata_log(
        self,
        config: TopicConfig,
        file_system: FileSystem | None = None,
        *,
        was_clean_stop: bool,
        written: WrittenEnds | None,
    ) -> PartitionLog:
        """Opens the log of `__cluster_metadata-0`, or creates it; `file_system` is by what it is
        used afterwards, if not by that of the directory.

        Its appends are durable when they are acknowledged, so that no checkpoint has it.
        """
        path = join(self._path, CLUSTER_METADATA_DIRECTORY)
        if self._file_system.status(path) is None:
            written = None  # what was noted of a lost log does not count
            make_durable_directory(self._file_system, path)
            self._file_system.restrict(path)  # there may be credentials in it
        named = join(path, PARTITION_METADATA)
        if self._file_system.status(named) is None:  # as in a directory that was only formatted
            write_topic_id(self._file_system, named, CLUSTER_METADATA_ID)
        clear_others(self._file_system, path)
        mark = join(self._path, METADATA_MARK)
        if self._file_system.status(mark) is None:
            replace_file(self._file_system, mark, b"")
        integrity = read_integrity(self._file_system, path)
        is_lost = integrity is None and is_integrity_lost(self._file_system, path)
        is_ours = integrity is not None or is_lost
        request = LoadRequest(
            file_system=file_system or self._file_system,
            directory=path,
            config=config,
            now_ms=self._options.now_ms,
            was_clean_stop=was_clean_stop,
            recovery_point=0,
            log_start_offset=0,
            topic_id=CLUSTER_METADATA_ID,
            is_same_boot=written is not None,
            written_end=written.of(base_name(path)) if written and is_ours else 0,
            integrity=integrity,
            is_integrity_lost=is_lost,
        )
        return self._open(request, TopicPartition(CLUSTER_METADATA, 0))

    def rename(self, path: str, name: str) -> str:
        """Renames a partition's directory, durably; returns its new path."""
        target = join(self._path, name)
        if target != path:
            self._file_system.rename(path, target)
            self._file_system.sync_directory(self._path)
        return target

    def _new_request(self, path: str) -> LoadRequest:
        """The request for a log without recorded state."""
        name = parse_directory_name(base_name(path))
        assert name is not None
        return LoadRequest(
            file_system=self._file_system,
            directory=path,
            config=self._options.topic_config(name.topic),
            are_settings_known=self._options.knows_topic(name.topic),
            now_ms=self._options.now_ms,
            was_clean_stop=False,
            recovery_point=0,
            log_start_offset=0,
        )

    def _open(
        self, request: LoadRequest, key: TopicPartition, refusal: StorageError | None = None
    ) -> PartitionLog:
        """Recovers and opens a log; with `refusal`, every use of it raises that error."""
        name = parse_directory_name(base_name(request.directory))
        assert name is not None
        # A copy is not replicated until it replaces a log, whose high watermark it takes then.
        is_replicated = self._options.is_replicated and name.state is DirectoryState.LIVE
        log = PartitionLog(
            recover(request),
            health=self._health,
            random_below=self._options.random_below,
            on_cut=partial(self._checkpoints.log_was_cut, key),
            high_watermark=request.high_watermark or 0 if is_replicated else None,
        )
        log.maintenance.release_files()  # so that 10,000 unused partitions need no descriptors
        if refusal is not None:
            log.health = DirectoryHealth(self._path)
            log.health.failure = refusal
        return log


def _put_in_order(
    logs: dict[TopicPartition, PartitionLog], order: Mapping[TopicPartition, str]
) -> None:
    for key in order:
        logs[key] = logs.pop(key)
