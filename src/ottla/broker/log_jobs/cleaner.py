"""The log cleaner, without threads: selects the log to compact next, and applies the result.

The thread that runs it (`runtime.cleaning`) takes a task under the broker's lock, carries out its
plan without the lock, and returns the result or the error. Failures are retried with growing
pauses. A segment that cannot be read is set aside after some attempts, and the rest of its log is
compacted without it. Kafka's counterparts: `LogCleaner`, `LogCleanerManager`.
"""

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from ottla.base.errors import CorruptionError, OttlaError, StorageError
from ottla.base.events import OnEvent, pass_over
from ottla.base.files import FileSystem
from ottla.base.partitions import TopicPartition
from ottla.base.timestamps import Timestamps
from ottla.base.values import dataclass
from ottla.broker.events import LogCompacted
from ottla.broker.log_jobs.cleaner_troubles import (
    DamagedSegment,
    Trouble,
    read_troubles,
    write_troubles,
)
from ottla.broker.log_jobs.log_access import LogAccess
from ottla.broker.topics.removals import SegmentRemovals
from ottla.config.broker import BrokerConfig
from ottla.storage.directory.log_directories import LogDirectories
from ottla.storage.directory.log_directory import LogDirectory
from ottla.storage.log.partition_log import PartitionLog

if TYPE_CHECKING:
    from ottla.storage.compaction.cleanable import Cleanable
    from ottla.storage.compaction.compaction import (
        CompactionPlan,
        CompactionResult,
        DamagedSegmentError,
    )

logger = logging.getLogger(__name__)

MAX_MAP_SIZE = 2**31 - 1
"""The largest key map of one thread in bytes, as in Kafka."""

TRIES_BEFORE_SETTING_ASIDE = 3


@dataclass(slots=True)
class CleanerTotals:
    """Counts since the start, for metrics."""

    passes: int = 0
    failures: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    last_pass_ms: int = 0
    """When the last pass succeeded, in wall time."""
    last_clean_ms: float = 0.0
    """How long that pass took, until its segments were in place."""
    max_clean_ms: float = 0.0
    last_run_ms: int = 0
    """When a log to compact was last looked for, in wall time."""


@dataclass(slots=True, kw_only=True, eq=False)
class CleaningTask:
    """A pass over one log. `stop` is called when its result is no longer needed."""

    key: TopicPartition
    directory: LogDirectory
    log: PartitionLog
    plan: "CompactionPlan"
    begun_ms: float
    """In monotonic time."""
    is_stopped: bool = False
    on_stop: Callable[[], None] = lambda: None

    def stop(self) -> None:
        self.is_stopped = True
        self.on_stop()


class Cleaner:
    """`removals` takes the segments that passes have replaced."""

    def __init__(
        self,
        directories: LogDirectories,
        access: LogAccess,
        file_system: FileSystem,
        config: Callable[[], BrokerConfig],
        removals: SegmentRemovals,
        on_event: OnEvent = pass_over,
    ) -> None:
        self._on_event = on_event
        self.states = access.states
        self._access = access
        self.totals = CleanerTotals()
        self._directories = directories
        self._file_system = file_system
        self._config = config
        self._removals = removals
        self._troubles: dict[TopicPartition, Trouble] = {}
        self.damaged: Callable[[TopicPartition, CorruptionError], None] = lambda _, __: None
        """Called with a segment that stays unreadable: another replica may lead instead."""
        self._told: dict[TopicPartition, str] = {}
        """The cause of each log's failures that was already logged."""
        for directory in directories:
            self._troubles.update(_read_troubles(file_system, directory))

    @property
    def thread_count(self) -> int:
        """How many passes may run at the same time."""
        config = self._config()
        return config.log_cleaner_threads if config.log_cleaner_enable else 0

    @property
    def backoff_ms(self) -> int:
        """How long to wait when there is no task."""
        return self._config().log_cleaner_backoff_ms

    @property
    def max_bytes_per_second(self) -> float:
        """The limit for the reads and writes of all passes together."""
        return self._config().log_cleaner_io_max_bytes_per_second

    @property
    def troubles(self) -> Mapping[TopicPartition, Trouble]:
        """The troubles of all logs that have, or had, any."""
        return self._troubles

    def trouble_of(self, key: TopicPartition) -> Trouble:
        return self._troubles.get(key, Trouble())

    # A pass

    def next_task(self, at: Timestamps) -> CleaningTask | None:
        """Returns a pass over the log with the most to clean, or `None` when no log is due.

        The caller must `finish` or `fail` it.
        """
        self.totals.last_run_ms = at.now_ms
        due: list[tuple[Cleanable, LogDirectory, TopicPartition, PartitionLog]] = []
        for directory, key, log in self._compacted_logs():
            if log.abort_check is not None:
                continue  # compaction could keep aborted records as if they had been committed
            if self.states.is_free(key) and not self._is_waiting(key, at.now_ms):
                with self._noting_failures(directory, key, log, at):
                    range_ = self.range_of(directory, key, log, at.now_ms)
                    if range_.is_due(log.config):
                        due.append((range_, directory, key, log))
        for range_, directory, key, log in sorted(due, key=lambda one: one[0].ratio, reverse=True):
            with self._noting_failures(directory, key, log, at):
                return self._task(directory, key, log, range_, at)
        return None

    @contextmanager
    def _noting_failures(
        self, directory: LogDirectory, key: TopicPartition, log: PartitionLog, at: Timestamps
    ) -> Iterator[None]:
        """Records an error as a failure of its log; the other logs are still considered."""
        with suppress(StorageError):  # Logged where the directory went offline.
            try:
                with directory.health.guarding():
                    yield
            except Exception as error:
                if directory.is_offline:
                    raise
                self._note_failure(directory, key, log, error, at)

    def task_for(self, key: TopicPartition, at: Timestamps) -> CleaningTask | None:
        """Returns a pass over one log, due or not; `None` when nothing can be compacted."""
        for directory, other, log in self._compacted_logs():
            if other == key and self.states.is_free(key):
                with directory.health.guarding():
                    range_ = self.range_of(directory, key, log, at.now_ms)
                    if range_.cleanable_bytes:
                        return self._task(directory, key, log, range_, at)
        return None

    def _compacted_logs(self) -> Iterator[tuple[LogDirectory, TopicPartition, PartitionLog]]:
        for directory in self._directories.online:
            for key, log in directory.logs.items():
                if log.config.is_compacted and self._access.may_compact(key.topic):
                    yield directory, key, log

    def each_range(self, now_ms: int) -> "Iterator[tuple[TopicPartition, Cleanable | None]]":
        """Yields what could be compacted now in each log.

        That is `None` for a log that is not compacted, or whose disk fails. Logs may come and go
        between two items.
        """
        for directory in self._directories.online:
            for key, log in list(directory.logs.items()):
                range_ = None
                is_there = log.config.is_compacted and directory.logs.get(key) is log
                if is_there and self._access.may_compact(key.topic):
                    with suppress(StorageError), directory.health.guarding():
                        range_ = self.range_of(directory, key, log, now_ms)
                yield key, range_

    def range_of(
        self, directory: LogDirectory, key: TopicPartition, log: PartitionLog, now_ms: int
    ) -> "Cleanable":
        """Returns the part of a log that could be compacted now."""
        # Lazy import: most commands open logs without compacting any.
        from ottla.storage.compaction.cleanable import cleanable, log_to_clean

        return cleanable(
            log_to_clean(log, directory.checkpoints.cleaned.get(key)), log.config, now_ms
        )

    def _is_waiting(self, key: TopicPartition, now_ms: int) -> bool:
        return self.trouble_of(key).retry_ms(self.backoff_ms, now_ms) is not None

    def _task(
        self,
        directory: LogDirectory,
        key: TopicPartition,
        log: PartitionLog,
        range_: "Cleanable",
        at: Timestamps,
    ) -> CleaningTask:
        from ottla.storage.compaction.planning import MapMemory, plan_compaction

        config = self._config()
        size = config.log_cleaner_dedupe_buffer_size // max(1, config.log_cleaner_threads)
        memory = MapMemory(
            size=min(size, MAX_MAP_SIZE), load_factor=config.log_cleaner_io_buffer_load_factor
        )
        log.maintenance.check_aborts(at_once=True)  # for a pass on request
        plan = plan_compaction(
            log,
            range_,
            self._file_system,
            memory,
            now_ms=at.now_ms,
            damaged=self._still_damaged(directory, key, log),
        )
        task = CleaningTask(
            key=key, directory=directory, log=log, plan=plan, begun_ms=at.monotonic_ms
        )
        self._access.begin_cleaning(key, log, task.stop)
        return task

    def _still_damaged(
        self, directory: LogDirectory, key: TopicPartition, log: PartitionLog
    ) -> set[int]:
        """Returns the segments that were set aside and have not changed since."""
        trouble = self.trouble_of(key)
        paths = log.segment_paths
        still = tuple(
            one
            for one in trouble.damaged
            if one.base_offset in paths and self._is_unchanged(paths[one.base_offset], one)
        )
        self._note(directory, key, replace(trouble, damaged=still))
        return {one.base_offset for one in still}

    def _is_unchanged(self, path: str, damaged: DamagedSegment) -> bool:
        status = self._file_system.status(path)
        return status is not None and (status.size, status.modified_ms) == (
            damaged.size,
            damaged.modified_ms,
        )

    # Its end

    def _end(self, task: CleaningTask) -> bool:
        return self._access.end_cleaning(task.key, task.log)

    def finish(self, task: CleaningTask, result: "CompactionResult", at: Timestamps) -> None:
        """Puts a pass's new segments into the log, unless the log has changed too much since.

        A failure is recorded and retried like one of the pass itself.
        """
        is_wanted = self._end(task)
        if not task.directory.is_offline:
            with self._noting_failures(task.directory, task.key, task.log, at):
                self._put_in_place(task, result, at, is_wanted=is_wanted)

    def _put_in_place(
        self, task: CleaningTask, result: "CompactionResult", at: Timestamps, *, is_wanted: bool
    ) -> None:
        from ottla.storage.compaction.replacement import fits, remove_cleaned, replace_segments

        log, directory = task.log, task.directory
        if not is_wanted or not fits(log, result.groups):
            with directory.health.guarding():
                remove_cleaned(self._file_system, log.directory, result.groups)
            return
        due_ms = at.monotonic_ms + log.config.file_delete_delay_ms
        for deleted in replace_segments(log, result.groups, self._file_system, at.now_ms):
            self._removals.add(directory, deleted, due_ms)
        directory.checkpoints.move_cleaned(task.key, result.end_offset)
        trouble = self.trouble_of(task.key)
        self._told.pop(task.key, None)
        self._note(directory, task.key, replace(trouble, failure_count=0, reason="", failed_ms=0))
        stats = result.stats
        self.totals.passes += 1
        self.totals.last_pass_ms = at.now_ms
        self.totals.last_clean_ms = at.monotonic_ms - task.begun_ms
        self.totals.max_clean_ms = max(self.totals.max_clean_ms, self.totals.last_clean_ms)
        self.totals.bytes_read += stats.bytes_read
        self.totals.bytes_written += stats.bytes_written
        self._on_event(
            LogCompacted(
                log=log.name,
                end_offset=result.end_offset,
                records_kept=stats.records_kept,
                records_read=stats.records_read,
                bytes_kept=stats.bytes_written,
                bytes_read=stats.bytes_read,
            )
        )
        if stats.keyless_records:
            logger.warning(
                "%s had %d records without a key, which a compacted topic cannot keep",
                log.name, stats.keyless_records,
            )  # fmt: skip

    def fail(self, task: CleaningTask, error: BaseException, at: Timestamps) -> None:
        """Records a pass that failed; its files are already removed."""
        is_wanted = self._end(task)
        if isinstance(error, OSError):
            error = task.directory.health.fail(error)
        if not is_wanted or task.is_stopped or task.directory.is_offline:
            return
        self._note_failure(task.directory, task.key, task.log, error, at)

    def _note_failure(
        self,
        directory: LogDirectory,
        key: TopicPartition,
        log: PartitionLog,
        error: BaseException,
        at: Timestamps,
    ) -> None:
        from ottla.storage.compaction.compaction import DamagedSegmentError

        self.totals.failures += 1
        trouble = self.trouble_of(key)
        trouble = replace(
            trouble,
            failure_count=trouble.failure_count + 1,
            reason=str(error) or type(error).__name__,
            failed_ms=at.now_ms,
        )
        if isinstance(error, DamagedSegmentError):
            trouble = self._set_aside(key, log, error, trouble)
        if trouble.failure_count and self._told.get(key) != trouble.reason:
            self._told[key] = trouble.reason
            is_ours = not isinstance(error, OttlaError)
            logger.error(
                "%s could not be compacted, and will be retried: %s",
                log.name, trouble.reason, exc_info=error if is_ours else None,
            )  # fmt: skip
        self._note(directory, key, trouble)

    def _set_aside(
        self,
        key: TopicPartition,
        log: PartitionLog,
        error: "DamagedSegmentError",
        trouble: Trouble,
    ) -> Trouble:
        if trouble.failure_count < TRIES_BEFORE_SETTING_ASIDE:
            return trouble
        status = self._file_system.status(error.path)
        if status is None:
            return trouble
        damaged = DamagedSegment(
            base_offset=error.base_offset,
            reason=str(error),
            size=status.size,
            modified_ms=status.modified_ms,
        )
        logger.error(
            "%s is set aside, and the rest of %s compacted without it; see `ottla log check`",
            error.path, log.name,
        )  # fmt: skip
        self.damaged(key, error)
        return Trouble(damaged=(*trouble.damaged, damaged))

    def _note(self, directory: LogDirectory, key: TopicPartition, trouble: Trouble) -> None:
        if trouble == self.trouble_of(key):
            return
        self._troubles[key] = trouble
        here = {other: one for other, one in self._troubles.items() if other in directory.logs}
        with directory.health.guarding():
            write_troubles(self._file_system, directory.path, here)

    def forget(self, key: TopicPartition) -> None:
        """Stops cleaning a log that will be deleted, and forgets its troubles."""
        self._troubles.pop(key, None)
        self._told.pop(key, None)


def _read_troubles(
    file_system: FileSystem, directory: LogDirectory
) -> dict[TopicPartition, Trouble]:
    try:
        with directory.health.guarding():
            return read_troubles(file_system, directory.path)
    except CorruptionError as error:
        logger.warning("%s; the cleaner begins again", error)
    except StorageError:
        pass  # logged where the directory went offline
    return {}
