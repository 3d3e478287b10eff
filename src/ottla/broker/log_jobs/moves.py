"""Moves partitions from one log directory to another, a few batches at a time.

A copy in the other directory is extended until it has reached the log's end and is on the disk.
Then, while nobody appends, it replaces the log: the log is renamed to `-delete` under the copy's
id, which decides the move, and then the copy to the partition's name. A crash before the first
rename leaves a log and a copy that the next start continues; a crash after it leaves a copy that
the next start puts in place (`startup_plan`). Either way one log remains, with everything that was
acknowledged.

Kafka's counterparts: `ReplicaAlterLogDirsManager`, `LogManager.replaceCurrentWithFutureLog`
(KIP-113). Kafka renames the copy first, and a crash between the renames leaves two logs.
"""

import logging
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Final

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError, OttlaError, StorageError
from ottla.base.events import pass_over
from ottla.base.files import FileSystem, base_name
from ottla.base.ids import Uuid
from ottla.base.partitions import TopicPartition
from ottla.base.timers import NEXT, AllTimers, Timers
from ottla.base.timestamps import Timestamps
from ottla.base.turns import at_once
from ottla.base.values import dataclass
from ottla.broker.log_jobs.log_access import LogAccess
from ottla.broker.topics.partition import Partition
from ottla.broker.topics.topic_store import TopicStore
from ottla.config.broker import BrokerConfig
from ottla.storage.directory.log_directories import LogDirectories
from ottla.storage.directory.log_directory import LogDirectory
from ottla.storage.files.filenames import parse_directory_name
from ottla.storage.log.log_copy import LogCopy, start_of_copy
from ottla.storage.log.maintenance import FlushPlan

logger = logging.getLogger(__name__)

STEP_SIZE: Final = 256 * 1024
STEPS_PER_ROUND: Final = 4
"""Clients wait during these steps, a few milliseconds."""

LAST_STEPS: Final = 16
"""The final steps without a pause, which must catch up with a fast producer."""

WAIT_MS: Final = 50.0


@dataclass(slots=True, eq=False)
class Move:
    """A move. The copy is flushed up to `flush_until` before it can replace the log."""

    partition: Partition
    topic_id: Uuid
    target: LogDirectory
    copy: LogCopy
    flush_until: int | None = None

    @property
    def key(self) -> TopicPartition:
        return TopicPartition(self.partition.topic, self.partition.index)

    @property
    def is_possible(self) -> bool:
        """Whether both directories are online and the copy exists (it is gone with a deleted
        topic).
        """
        is_offline = self.target.is_offline or self.partition.is_offline
        return not is_offline and self.target.futures.get(self.key) is self.copy.target


class Moves:
    """All moves; each proceeds step by step."""

    def __init__(
        self,
        directories: LogDirectories,
        access: LogAccess,
        store: TopicStore,
        file_system: FileSystem,
        config: Callable[[], BrokerConfig],
        timers: AllTimers,
    ) -> None:
        self._has_flusher = False
        self._directories = directories
        self._access = access
        self._topics = store.topics
        self._removals = store.removals
        self._file_system = file_system
        self._config = config
        self._moves: dict[TopicPartition, Move] = {}
        self._next_step: Timers[str] = timers.new_room()
        self.moved: Callable[[Partition], None] = pass_over
        """Called for each partition whose log is in another directory now."""

    def leave_flushing(self, *, to_others: bool = True) -> None:
        """With `to_others`, the caller carries out `Flushes.due`; otherwise copies are
        flushed here.
        """
        self._has_flusher = to_others

    def __len__(self) -> int:
        return len(self._moves)

    def find(self, partition: Partition) -> Move | None:
        """Returns the partition's running move."""
        move = self._moves.get(TopicPartition(partition.topic, partition.index))
        if move is None or move.partition is not partition or not move.is_possible:
            return None
        return move

    # Requests

    def request(self, topic: str, index: int, path: str) -> None:
        """Starts to move a partition to another log directory, or cancels its move.

        The move is cancelled if `path` is the partition's present directory. Raises `ApiError`.
        Kafka: `ReplicaManager.alterReplicaLogDirs`.
        """
        target = self.directory_at(path)
        if target is None:
            raise ApiError(ErrorCode.LOG_DIR_NOT_FOUND)
        self.request_to(target, topic, index)

    def request_to(self, target: LogDirectory, topic: str, index: int) -> None:
        """As `request`, for one of many partitions that move to the same directory."""
        if target.is_offline:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR)
        partition = self._topics.online_partition(topic, index)
        try:
            if partition.directory is target:
                self._cancel(partition)
            elif self._directories.is_cordoned(target):
                raise ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"{target.path} is cordoned.")
            else:
                self._start(partition, self._topics.get(topic).topic_id, target)
        except StorageError as error:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR) from error

    def directory_at(self, path: str) -> LogDirectory | None:
        """Returns the log directory at a path."""
        canonical = self._file_system.canonical
        place = canonical(path)
        return next((one for one in self._directories if canonical(one.path) == place), None)

    def _start(self, partition: Partition, topic_id: Uuid, target: LogDirectory) -> None:
        """Starts to move a partition; cancels its move to any other directory."""
        move = self.find(partition)
        if move is not None and move.target is target:
            return
        self._cancel(partition)
        key = TopicPartition(partition.topic, partition.index)
        with at_once():  # or another request might start the same move meanwhile
            future = target.create_future(*key, topic_id, start_of_copy(partition.log))
        # The copy starts with the log's cleaned offset; later cleaning must be repeated in the
        # copy.
        target.checkpoints.move_cleaned(key, partition.directory.checkpoints.cleaned.get(key))
        self._add(Move(partition, topic_id, target, LogCopy(partition.log, future)))
        logger.info("%s-%d moves to %s", *key, target.path)

    def resume(self, now_ms: int) -> None:
        """Continues the copies that were found at the start."""
        for directory in self._directories:
            for (name, index), future in directory.futures.items():
                topic = self._topics.find(name)
                if topic is None or index not in topic.partitions:
                    continue
                partition = topic.partitions[index]
                copy = LogCopy(partition.log, future)
                with suppress(StorageError):  # logged where the directory went offline
                    copy.resume(now_ms)
                    self._add(Move(partition, topic.topic_id, directory, copy))

    def _add(self, move: Move) -> None:
        self._moves[move.key] = move
        self._next_step.set(NEXT, 0.0)

    def _cancel(self, partition: Partition) -> None:
        """Cancels the partition's move, if there is one."""
        move = self.find(partition)
        self._moves.pop(TopicPartition(partition.topic, partition.index), None)
        if not self._moves:
            self._next_step.cancel(NEXT)
        if move is not None:
            self._discard(move)

    # The work

    def due_flushes(self, directory: LogDirectory, monotonic_ms: float) -> Iterable[FlushPlan]:
        """Yields the flushes of the copies in a directory that are due now."""
        for key, log in directory.futures.items():
            move = self._moves.get(key)
            until = move.flush_until if move is not None else None
            maintenance = log.maintenance
            due = (
                maintenance.due_flush(monotonic_ms)
                if until is None
                else maintenance.plan_flush(until)
            )
            if due is not None:
                yield due

    def advance(self, at: Timestamps) -> None:
        """Runs one step of the oldest waiting move, and puts the move at the end of the queue."""
        if self._next_step.take_due(at.monotonic_ms) is None:
            return
        wait_ms = self._advance_first(at)
        if self._moves:
            self._next_step.set(NEXT, at.monotonic_ms + wait_ms)

    def _advance_first(self, at: Timestamps) -> float:
        """Returns how long to wait until the next step."""
        key = next(iter(self._moves))
        move = self._moves.pop(key)
        if not move.is_possible:
            return 0.0
        try:
            is_over, wait_ms = self._step(move, at)
        except StorageError as error:
            if move.is_possible:
                self._give_up(move, error)  # only the copy's own directory is gone
            return 0.0  # logged where the directory went offline; the next start continues
        except Exception as error:  # a move that cannot go on must not end the others
            self._give_up(move, error)
            return 0.0
        if not is_over:
            self._moves[key] = move
        return wait_ms

    def _step(self, move: Move, at: Timestamps) -> tuple[bool, float]:
        """Returns whether the move is over, and how long to wait until the next step."""
        rate = self._config().replica_alter_log_dirs_io_max_bytes_per_second
        if rate <= 0:
            return False, WAIT_MS
        size = self._copy(move, at, STEPS_PER_ROUND)
        if move.copy.has_more:
            return False, size * 1000 / rate
        if not self._is_flushed(move) or not self._access.may_replace(move.copy.source):
            return False, WAIT_MS
        move.copy.source.writer.write_out()
        self._copy(move, at, LAST_STEPS)
        if move.copy.lag:
            # In a cluster it may take until other brokers have what is still to be copied.
            return False, 0.0 if move.copy.has_more else WAIT_MS
        self._replace(move)
        return True, 0.0

    def _copy(self, move: Move, at: Timestamps, count: int) -> int:
        """Copies up to `count` steps; returns the copied bytes."""
        size = 0
        for _ in range(count):
            if not move.copy.has_more:
                break
            size += move.copy.step(STEP_SIZE, at.now_ms)
        return size

    def _is_flushed(self, move: Move) -> bool:
        """Whether most of the copy is on the disk, so that the final flush is short."""
        future = move.copy.target
        if move.flush_until is None:
            move.flush_until = future.log_end_offset
        if future.offsets.recovery_point >= move.flush_until:
            return True
        if not self._has_flusher:
            future.writer.flush()
        return not self._has_flusher

    def _replace(self, move: Move) -> None:
        """Replaces the log by the copy; nobody appends meanwhile."""
        key, partition, target = move.key, move.partition, move.target
        source, future, left = move.copy.source, move.copy.target, partition.directory
        move.copy.carry_over()
        if future.offsets.recovery_point < source.offsets.recovery_point:
            future.writer.flush()
        name = parse_directory_name(base_name(future.directory))
        assert name is not None
        assert name.unique_id is not None
        # The copy's start offset and recovery point must be durable before the copy has its final
        # name.
        target.checkpoints.write()
        move.copy.check()
        path = left.delete_log(*key, bytes.fromhex(name.unique_id))
        partition.log, partition.directory = future, target
        try:
            target.adopt_future(*key, move.topic_id)
        except StorageError:
            # The partition is offline. The renamed log may be the last one left, so it is kept.
            source.maintenance.abandon()
            raise
        self._removals.add(left, path, source)
        with suppress(StorageError):
            left.checkpoints.write()
        logger.info("%s-%d has moved from %s to %s", *key, left.path, target.path)
        self.moved(partition)

    def _give_up(self, move: Move, error: Exception) -> None:
        is_ours = not isinstance(error, OttlaError)
        logger.error(
            "%s-%d cannot be moved to %s: %s",
            *move.key, move.target.path, error, exc_info=is_ours,
        )  # fmt: skip
        with suppress(StorageError):
            self._discard(move)

    def _discard(self, move: Move) -> None:
        self._removals.add(move.target, move.target.delete_future(*move.key))
