"""Delayed removal of files: directories of deleted partitions, and segments that retention deleted.

The delay (`file.delete.delay.ms`) gives readers of the files, and users, time to notice. It is on
the monotonic clock, so a restart begins it again, as in Kafka. A crash leaves a directory with some
of its files, which `LogDirectory.open` finds by its name; of a segment it leaves files that the
recovery of its log removes.

Kafka's counterparts: `LogManager.deleteLogs`, `LocalLog.deleteSegmentFiles`.
"""

from collections import deque
from collections.abc import Callable
from math import inf
from typing import Final

from ottla.base.errors import StorageError
from ottla.base.partitions import TopicPartition
from ottla.base.timers import NEXT, AllTimers, Timers
from ottla.base.values import dataclass
from ottla.storage.directory.log_directory import LogDirectory
from ottla.storage.log.deleted_segment import DeletedSegment
from ottla.storage.log.partition_log import PartitionLog

FILES_PER_RUN: Final = 16
"""Large files take milliseconds each to remove, and clients wait meanwhile."""

SEGMENTS_PER_RUN: Final = 256
"""Their files are closed in 2 ms."""

MAX_OPEN_LOGS: Final = 64
"""The number of deleted logs whose files stay open for pending responses. Above it the oldest are
closed: otherwise frequent creations and deletions of topics would exhaust the file descriptors.
"""


@dataclass(slots=True)
class Removal:
    """`since_ms` is when the delay began; `None` until the next `run`."""

    directory: LogDirectory
    path: str
    since_ms: float | None = None
    log: PartitionLog | None = None
    """The log, while its files are open for pending responses."""

    closed_count: int = 0
    """How many of its segments are closed."""

    def close(self) -> None:
        while self.close_some():
            pass

    def close_some(self) -> bool:
        """Closes the files of some segments; returns whether others are left."""
        if self.log is None:
            return False
        first = self.closed_count
        self.closed_count += SEGMENTS_PER_RUN
        if self.log.maintenance.abandon_some(first, SEGMENTS_PER_RUN):
            return True
        self.log = None
        return False


class Removals:
    """A `queue` in order of deletion, in which the delays also end.

    `before_delete` must be called for a partition whose log will be deleted.
    """

    def __init__(self, timers: AllTimers, before_delete: Callable[[TopicPartition], None]) -> None:
        self.before_delete = before_delete
        self.queue: deque[Removal] = deque()
        self._next_run: Timers[str] = timers.new_room()
        self._open: deque[Removal] = deque()

    def add(self, directory: LogDirectory, path: str, log: PartitionLog | None = None) -> None:
        """`log` is closed when its files are removed, or earlier if too many are open."""
        removal = Removal(directory, path, log=log)
        self.queue.append(removal)
        self._next_run.set(NEXT, 0.0)  # the delay begins at the next `run`
        if log is not None:
            self._open.append(removal)
            if len(self._open) > MAX_OPEN_LOGS:
                self._open.popleft().close()

    def close(self) -> None:
        """Closes the files that are still open."""
        for removal in self.queue:
            removal.close()

    def run(self, monotonic_ms: float, delay_ms: int) -> None:
        """Begins the delays of new removals, and removes some files whose delay has ended.

        Call it in every round, since clients can change the delay.
        """
        for removal in reversed(self.queue):
            if removal.since_ms is not None:
                break
            removal.since_ms = monotonic_ms
        queue = self.queue
        left = FILES_PER_RUN
        while queue and left > 0 and (queue[0].since_ms or 0.0) + delay_ms <= monotonic_ms:
            left -= self._remove_some(queue[0], left)
        if queue:
            self._next_run.set(NEXT, (queue[0].since_ms or 0.0) + delay_ms)
        else:
            self._next_run.cancel(NEXT)

    def _remove_some(self, removal: Removal, limit: int) -> int:
        """Removes up to `limit` files, and returns how many; the last one ends the removal."""
        if removal.close_some():
            return limit  # the files go when all are closed
        try:
            count = removal.directory.remove_deleted(removal.path, limit)
        except StorageError:
            count = 0  # logged where the directory went offline; the next start continues
        if count < limit:
            self.queue.popleft()
        return count


class SegmentRemovals:
    """Segments in order of when their delay ends; each topic has its own delay."""

    def __init__(self, timers: AllTimers) -> None:
        self._due: Timers[tuple[LogDirectory, DeletedSegment]] = timers.new_room()

    def __len__(self) -> int:
        return len(self._due)

    def add(self, directory: LogDirectory, segment: DeletedSegment, due_ms: float) -> None:
        self._due.set((directory, segment), due_ms)

    def run(self, monotonic_ms: float) -> None:
        """Removes some files whose delay has ended."""
        left = FILES_PER_RUN
        while left > 0 and (due := self._due.take_due(monotonic_ms)) is not None:
            directory, segment = due
            left -= len(segment.paths)
            try:
                with directory.health.guarding():
                    segment.remove()
            except StorageError:  # logged where the directory went offline
                segment.close()  # the next start removes what is left

    def close(self) -> None:
        """Closes the files; the next start removes them."""
        for _, segment in self._due.take_all_due(inf):
            segment.close()
