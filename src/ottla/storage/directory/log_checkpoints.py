"""The checkpoint files of a log directory: an offset for each log, such as its recovery point.

Recovery points, log starts and high watermarks are written together, at intervals and when the
directory is closed. Log starts are also written alone, before retention deletes files, and the
cleaner's offsets when a pass ends. Format page: docs/format/checkpoints.md. A crash leaves the
complete old or new file. Kafka's counterparts: the checkpoints of `LogManager` and
`LogCleanerManager`.
"""

import logging
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping
from typing import Final

from ottla.base.files import FileSystem, join, write_file
from ottla.base.partitions import TopicPartition
from ottla.base.turns import aside, freed_in_turns, in_turns, parts_of, result_of, yield_turn
from ottla.storage.directory.found_logs import FoundLog
from ottla.storage.files.checkpoints import OffsetCheckpoint, offsets_text_in_steps
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

OffsetsInSteps = Generator[None, None, dict[TopicPartition, int]]
NO_OFFSETS: Final[Mapping[TopicPartition, int]] = {}

LOGS_PER_STEP: Final = 1024
"""What is asked at a time for its offsets, in less than a millisecond."""


class LogCheckpoints:
    """The checkpoints of one directory, with `logs` and `futures`, copies that are being made."""

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
        """The recovery points as read at the start."""
        self.named = NamedPartitions(by_file={})
        """The partitions that any checkpoint named at the start."""
        self.high_watermarks: Mapping[TopicPartition, int] = {}
        """The high watermarks as read at the start."""
        self.cleaned: dict[TopicPartition, int] = {}
        """The first dirty offset of each compacted log; `move_cleaned` changes it."""
        self._strangers: set[TopicPartition] = set()
        """Deleted logs that may still be in the files. A new log of the same name must not get
        their recovery point and start."""
        self._deletions = 0
        self._points_order = _Order()
        self._starts_order = _Order()
        self._high_watermarks_order = _Order()
        self._refused: dict[TopicPartition, tuple[int, int]] = {}
        """Recovery points and starts of logs that are missing."""

    # At the start

    def read(self) -> None:
        """Reads the files; a damaged file is logged and counts as empty. Raises `OSError`."""
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

    def starts_of(
        self, found: Mapping[TopicPartition, FoundLog], is_tiered: Callable[[str], bool]
    ) -> dict[TopicPartition, int]:
        """The start offsets of the logs to be loaded; raises `OSError`.

        The first segment shows the start of a log that is in no file, but not of a tiered one:
        that was enabled or created, and then not stopped in order, before the files were written.
        """
        starts = {
            key: self._log_starts.start_of(key, is_copy_valid=one.integrity is not None)
            for key, one in found.items()
        }
        unknown = found.keys() - self._log_starts.known
        for key in [one for one in unknown if is_tiered(one.topic)]:
            starts[key] = start_by_epochs(self._file_system, found[key].path)
        if self._log_starts.are_lost:
            ours = {key: one.path for key, one in found.items() if one.integrity is not None}
            starts |= {key: start_by_epochs(self._file_system, ours[key]) for key in ours}
            if any(starts.values()):
                logger.error(
                    "%s and %s in %s are missing or empty; logs start at the first offset of %s",
                    CHECKPOINT_LOG_START, COPIED_LOG_STARTS, self.health.directory, LEADER_EPOCHS,
                )  # fmt: skip
        self._log_starts.keep(starts)
        return starts

    def loaded(self) -> None:
        """Compares the files with the logs, once all logs are loaded."""
        for key, log in self._logs.items():
            # A first dirty offset after the log's end would make later appends before it count as
            # compacted, and remove their tombstones before the values that they delete.
            if self.cleaned.get(key, 0) > log.log_end_offset:
                logger.warning(
                    "%s-%d ends before its first dirty offset; it is compacted from its start", *key
                )
                self.move_cleaned(key, None)
        known = self.named.partitions() | self._log_starts.known
        self._strangers = known - self._logs.keys() - self._futures.keys()

    def name_also(self, file_name: str, keys: Iterable[TopicPartition]) -> None:
        """Adds the partitions that another file than a checkpoint names."""
        by_file = {**self.named.by_file, file_name: dict.fromkeys(keys, 0)}
        self.named = NamedPartitions(by_file=by_file, is_complete=False)

    def refuse(self, keys: Collection[TopicPartition]) -> None:
        """Keeps the entries of missing partitions in the files, for the next start."""
        starts = self._log_starts.checkpointed
        self._refused = {
            key: (point, starts.get(key, 0))
            for key in keys
            if key not in self._logs and (point := self.named.offset_of(key)) is not None
        }

    def record_kept(self) -> None:
        """Writes the recovery points that a recovery has moved behind damage that it keeps.

        Otherwise a power failure could make it look torn at the next start, and cost what follows.
        Call after `refuse`; raises `StorageError`.
        """
        points = self.recovery_points
        if any(one.offsets.recovery_point > points.get(key, 0) for key, one in self._logs.items()):
            self.write()

    # Created and deleted logs

    def before_creation(self, key: TopicPartition) -> None:
        """Removes the entries of a deleted log before one of the same name is created.

        Raises `StorageError`.
        """
        if key in self._strangers:
            self.write()
        self.move_cleaned(key, None)

    def deleted(self, keys: Collection[TopicPartition]) -> None:
        """Records that logs were deleted; raises `StorageError`."""
        self._strangers.update(keys)
        self._deletions += 1
        for key in keys:
            self.move_cleaned(key, None)

    @touches_disk
    def forget(self, keys: Collection[TopicPartition]) -> None:
        """Removes deleted partitions from the files, durably."""
        # After a crash they would count as lost, even if new ones of the same names are created.
        is_refused = [self._refused.pop(key, None) is not None for key in keys]
        if any(is_refused) or not self._strangers.isdisjoint(keys):
            for _ in in_turns(self.write_in_steps()):
                pass

    def log_was_cut(self, key: TopicPartition) -> None:
        """Records that a log was truncated at its end, so that new records there are not clean."""
        self.write()
        log = self._logs.get(key)
        if log is not None and self.cleaned.get(key, 0) > log.segments.active.base_offset:
            self.move_cleaned(key, log.segments.active.base_offset)

    @touches_disk
    def name_created(self) -> None:
        """Writes the recovery points, which name every log; raises `StorageError`.

        From here on a start misses a created log that is gone. Kafka names it within a minute. The
        names of the logs' directories become durable too. Other requests have their turn meanwhile.
        """
        files, path = self._file_system, self._recovery_points.path
        number = self._points_order.take()
        points = result_of(self._points_in_steps(), yield_turn)
        freed_in_turns(points)
        content = result_of(offsets_text_in_steps(points), yield_turn)
        prepared = f"{path}.{number}.tmp"
        aside(lambda: write_file(files, prepared, [content]))
        if self._points_order.is_latest(number):
            files.rename(prepared, path)
        else:  # a later state, which includes these logs
            files.remove(prepared)
        aside(lambda: files.sync_directory(self.health.directory))

    # Writing

    def write(self) -> None:
        """Writes recovery points, log starts and high watermarks for the next start."""
        for _ in self.write_in_steps():
            pass

    def write_in_steps(self) -> Iterator[None]:
        """Like `write`, in steps of about a millisecond, however many logs there are."""
        deletions = self._deletions
        # The starts first. A recovery point is never before the start, even if less was flushed:
        # with the older start, recovery would not check the batches between the two.
        yield from self.write_log_starts_in_steps()
        yield from self._write_in_steps(
            self._points_order,
            self._points_in_steps(),
            lambda _, content: self._recovery_points.replace(content),
        )
        yield from self.write_high_watermarks_in_steps()
        if deletions == self._deletions:
            self._strangers.clear()

    def write_high_watermarks(self) -> None:
        """Writes the high watermarks alone; raises `StorageError`."""
        for _ in self.write_high_watermarks_in_steps():
            pass

    def write_high_watermarks_in_steps(self) -> Iterator[None]:
        """Like `write_high_watermarks`, in steps as those of `write_in_steps`."""
        return self._write_in_steps(
            self._high_watermarks_order,
            self._offsets_in_steps(lambda log: log.high_watermark),
            lambda _, content: self._high_watermarks.replace(content),
        )

    def write_log_starts(self) -> None:
        """Writes the starts of logs that may not start at their first segment's base offset."""
        for _ in self.write_log_starts_in_steps():
            pass

    def write_log_starts_in_steps(self) -> Iterator[None]:
        """Like `write_log_starts`, in steps as those of `write_in_steps`."""
        refused = {key: start for key, (_, start) in self._refused.items() if start}
        return self._write_in_steps(
            self._starts_order,
            self._offsets_in_steps(_moved_start, refused),
            self._log_starts.replace,
        )

    def _points_in_steps(self) -> OffsetsInSteps:
        refused = {key: point for key, (point, _) in self._refused.items()}
        return self._offsets_in_steps(lambda log: log.offsets.recovery_point, refused)

    def _offsets_in_steps(
        self,
        offset_of: Callable[[PartitionLog], int | None],
        refused: Mapping[TopicPartition, int] = NO_OFFSETS,
    ) -> OffsetsInSteps:
        """The offsets of all logs that have one, and of `refused` ones."""
        offsets: dict[TopicPartition, int] = {}
        for part in parts_of({**self._futures, **self._logs}.items(), LOGS_PER_STEP):
            with self.health.guarding():  # a log that failed has any state
                found = [(key, offset_of(log)) for key, log in part]
            offsets.update((key, offset) for key, offset in found if offset is not None)
            yield
        offsets.update(refused)
        return offsets

    def _write_in_steps(
        self,
        order: "_Order",
        offsets: OffsetsInSteps,
        replace: Callable[[Mapping[TopicPartition, int], bytes], None],
    ) -> Iterator[None]:
        number = order.take()
        found = yield from offsets
        content = yield from offsets_text_in_steps(found)
        if order.is_latest(number):
            with self.health.guarding():
                replace(found, content)
        yield

    @touches_disk
    def move_cleaned(self, key: TopicPartition, offset: int | None) -> None:
        """Writes the first dirty offset of a log; `None` removes it."""
        if self.cleaned.get(key) == offset:
            return
        if offset is None:
            del self.cleaned[key]
        else:
            self.cleaned[key] = offset
        # Deleted logs are left out, or a new log of the same name would get their offsets.
        known = self._logs.keys() | self._futures.keys()
        self._cleaner_points.write({one: at for one, at in self.cleaned.items() if one in known})


def _moved_start(log: PartitionLog) -> int | None:
    """The start of a log, unless that is its first segment's base offset.

    Always of a tiered log, as in Kafka: its first segments may go before the next checkpoint.
    """
    start = log.log_start_offset
    is_moved = log.offsets.is_front_unsynced or start != log.segments.first.base_offset
    return start if is_moved or log.config.remote_storage_enable else None


class _Order:
    """Of the states of a file that are prepared in steps, only one that was begun later may replace
    another: an earlier one has offsets of before a truncation, and lacks logs.
    """

    def __init__(self) -> None:
        self._begun = 0
        self._written = 0

    def take(self) -> int:
        """Returns the number of a state that is begun now."""
        self._begun += 1
        return self._begun

    def is_latest(self, number: int) -> bool:
        """Whether a state may be written: none that was begun later was. The caller then does."""
        if number < self._written:
            return False
        self._written = number
        return True
