"""The checkpoint files of a log directory: how far each log is flushed, and so on.

Recovery points, log starts and high watermarks are written together, at intervals and when the
directory is closed; log starts also on their own, before retention removes files; the cleaner's
offsets when a pass ends. Format page: docs/format/checkpoints.md. A crash leaves each file as it
was or as it is to be. Kafka's counterparts: the checkpoints of `LogManager` and
`LogCleanerManager`.
"""

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping

from ottla.base.files import FileSystem, join
from ottla.base.partitions import TopicPartition
from ottla.storage.directory.found_logs import FoundLog
from ottla.storage.files.checkpoints import OffsetCheckpoint
from ottla.storage.files.directory_health import DirectoryHealth, touches_disk
from ottla.storage.files.filenames import (
    CHECKPOINT_CLEANER,
    CHECKPOINT_HIGH_WATERMARK,
    CHECKPOINT_LOG_START,
    CHECKPOINT_RECOVERY_POINT,
    COPIED_LOG_STARTS,
    LEADER_EPOCHS,
)
from ottla.storage.files.log_starts import LogStarts
from ottla.storage.files.named_partitions import NamedPartitions, read_named_partitions
from ottla.storage.log.leader_epochs import start_by_epochs
from ottla.storage.log.partition_log import PartitionLog

logger = logging.getLogger(__name__)

Logs = Mapping[TopicPartition, PartitionLog]


class LogCheckpoints:
    """`logs` are the directory's own, `futures` the copies that grow in it."""

    def __init__(
        self, file_system: FileSystem, health: DirectoryHealth, logs: Logs, futures: Logs
    ) -> None:
        self.health = health
        self._logs = logs
        self._futures = futures
        self._file_system = file_system
        path = health.directory
        self._recovery_points = OffsetCheckpoint(file_system, join(path, CHECKPOINT_RECOVERY_POINT))
        self._log_starts = LogStarts(file_system, path)
        self._high_watermarks = OffsetCheckpoint(file_system, join(path, CHECKPOINT_HIGH_WATERMARK))
        self._cleaner_points = OffsetCheckpoint(file_system, join(path, CHECKPOINT_CLEANER))
        self.recovery_points: Mapping[TopicPartition, int] = {}
        """As the start found them: of each log that was here by then."""
        self.named = NamedPartitions(by_file={})
        """As the start found them: the logs that were here by then, whichever file says so."""
        self.high_watermarks: Mapping[TopicPartition, int] = {}
        """As the start found them."""
        self.cleaned: dict[TopicPartition, int] = {}
        """Up to where each compacted log has been compacted; `move_cleaned` changes it."""
        self._strangers: set[TopicPartition] = set()
        """Logs that are gone but may be in the files, where a new one of the name must not find the
        recovery point and the start of the old one."""
        self._deletions = 0
        self._refused: dict[TopicPartition, tuple[int, int]] = {}
        """Recovery points and starts of logs that should be here and are not."""

    # At the start

    def read(self) -> None:
        """Raises `OSError`; what is damaged is named, and counts as empty."""
        self.recovery_points = self._recovery_points.read_if_whole()
        self._log_starts.read()
        self.high_watermarks = self._high_watermarks.read_if_whole()
        self.cleaned = self._cleaner_points.read_if_whole()
        if self.recovery_points:
            by_file = {
                CHECKPOINT_RECOVERY_POINT: self.recovery_points,
                CHECKPOINT_HIGH_WATERMARK: self.high_watermarks,
                CHECKPOINT_LOG_START: self._log_starts.checkpointed,
            }
            self.named = NamedPartitions(by_file=by_file)
        else:
            self.named = read_named_partitions(self._file_system, self.health.directory)

    def starts_of(self, found: Mapping[TopicPartition, FoundLog]) -> dict[TopicPartition, int]:
        """Returns the start offsets of the logs that are about to be loaded; raises `OSError`."""
        starts = {
            key: self._log_starts.start_of(key, is_copy_valid=one.integrity is not None)
            for key, one in found.items()
        }
        if self._log_starts.are_lost:
            ours = {key: one.path for key, one in found.items() if one.integrity is not None}
            starts |= {key: start_by_epochs(self._file_system, ours[key]) for key in ours}
            if any(starts.values()):
                logger.error(
                    "%s and %s in %s are gone, or say nothing; logs start where %s says",
                    CHECKPOINT_LOG_START, COPIED_LOG_STARTS, self.health.directory, LEADER_EPOCHS,
                )  # fmt: skip
        self._log_starts.keep(starts)
        return starts

    def loaded(self) -> None:
        """Compares what was read with the logs, which are all there now."""
        for key, log in self._logs.items():
            # What is appended below an offset after the log's end was never compacted. Were it
            # taken for compacted, its tombstones could go before the values that they delete.
            if self.cleaned.get(key, 0) > log.log_end_offset:
                logger.warning("%s-%d ends before it was compacted: it will be again", *key)
                self.move_cleaned(key, None)
        known = self.named.partitions() | self._log_starts.known
        self._strangers = known - self._logs.keys() - self._futures.keys()

    def name_also(self, file_name: str, keys: Iterable[TopicPartition]) -> None:
        """Takes partitions for known that a file beside the checkpoints names."""
        by_file = {**self.named.by_file, file_name: dict.fromkeys(keys, 0)}
        self.named = NamedPartitions(by_file=by_file, is_complete=False)

    def refuse(self, keys: Collection[TopicPartition]) -> None:
        """Keeps the entries of partitions that are not served, for the next start."""
        starts = self._log_starts.checkpointed
        self._refused = {
            key: (point, starts.get(key, 0))
            for key in keys
            if key not in self._logs and (point := self.named.offset_of(key)) is not None
        }

    # As logs come and go

    def before_creation(self, key: TopicPartition) -> None:
        """Removes the entries of an older log of the same name before a new one is created; raises
        `StorageError`.
        """
        if key in self._strangers:
            self.write()
        self.move_cleaned(key, None)

    def deleted(self, keys: Collection[TopicPartition]) -> None:
        """Records logs that left the directory; raises `StorageError`."""
        self._strangers.update(keys)
        self._deletions += 1
        for key in keys:
            self.move_cleaned(key, None)

    @touches_disk
    def forget(self, keys: Collection[TopicPartition]) -> None:
        """Takes partitions that are gone out of the files.

        They would otherwise be taken for lost if a crash comes before new ones of their names are
        created.
        """
        is_refused = [self._refused.pop(key, None) is not None for key in keys]
        if any(is_refused) or not self._strangers.isdisjoint(keys):
            self.write()

    def log_was_cut(self, key: TopicPartition) -> None:
        """Records that a log was cut at its end, and continues with what is not compacted."""
        self.write()
        log = self._logs.get(key)
        if log is not None and self.cleaned.get(key, 0) > log.segments.active.base_offset:
            self.move_cleaned(key, log.segments.active.base_offset)

    # Written

    def write(self) -> None:
        """Records recovery points, log starts and high watermarks for the next start."""
        for _ in self.write_in_steps():
            pass

    def write_in_steps(self) -> Iterator[None]:
        """Like `write`, but one file per step: each takes milliseconds with 10,000 logs."""
        deletions = self._deletions
        # The starts first: a recovery point is at least the start, whatever is flushed, and would
        # keep a crash in between from recovering what the older start still shows.
        self.write_log_starts()
        yield
        self._write_recovery_points()
        yield
        self.write_high_watermarks()
        if deletions == self._deletions:
            self._strangers.clear()
        yield

    @touches_disk
    def _write_recovery_points(self) -> None:
        logs = {**self._futures, **self._logs}
        points = {key: log.offsets.recovery_point for key, log in logs.items()}
        points.update((key, point) for key, (point, _) in self._refused.items())
        self._recovery_points.write(points)

    @touches_disk
    def write_high_watermarks(self) -> None:
        logs = {**self._futures, **self._logs}
        self._high_watermarks.write({key: log.high_watermark for key, log in logs.items()})

    @touches_disk
    def write_log_starts(self) -> None:
        """Records where logs start that do not start with their first segment."""
        starts = {
            key: log.log_start_offset
            for key, log in {**self._futures, **self._logs}.items()
            if log.offsets.is_front_unsynced
            or log.log_start_offset > log.segments.first.base_offset
        }
        starts.update((key, start) for key, (_, start) in self._refused.items() if start)
        self._log_starts.write(starts)

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
        known = self._logs.keys() | self._futures.keys()
        self._cleaner_points.write({one: at for one, at in self.cleaned.items() if one in known})
