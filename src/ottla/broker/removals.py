"""The directories of deleted partitions, which stay for a while before their files are removed.

The wait (`file.delete.delay.ms`) gives readers of those files, and people, time to notice. It is on
the monotonic clock, so it starts anew when the broker does, as in Kafka. A crash leaves a directory
with some of its files, which `LogDirectory.open` finds by its name.

Kafka's counterpart: `LogManager.deleteLogs`.
"""

from collections import deque
from dataclasses import dataclass

from ottla.base.errors import StorageError
from ottla.storage.log_directory import LogDirectory

FILES_PER_RUN = 16
"""Large files take milliseconds each to remove, and clients wait meanwhile."""


@dataclass(slots=True)
class Removal:
    """`since_ms` is when the wait began; `None` until the clock is first seen."""

    directory: LogDirectory
    path: str
    since_ms: float | None = None


class Removals:
    """A `queue` in order of deletion, which is the order in which the waits end."""

    def __init__(self) -> None:
        self.queue: deque[Removal] = deque()

    def add(self, directory: LogDirectory, path: str) -> None:
        self.queue.append(Removal(directory, path))

    def next_deadline_ms(self, delay_ms: int) -> float | None:
        """When `run` has something to do: at once for what was added since the last run."""
        if not self.queue:
            return None
        if self.queue[-1].since_ms is None:
            return 0.0
        return (self.queue[0].since_ms or 0.0) + delay_ms

    def run(self, monotonic_ms: float, delay_ms: int) -> None:
        """Starts the waits of what is new, and removes some files of what has waited enough."""
        for removal in reversed(self.queue):
            if removal.since_ms is not None:
                break
            removal.since_ms = monotonic_ms
        queue = self.queue
        left = FILES_PER_RUN
        while queue and left > 0 and (queue[0].since_ms or 0.0) + delay_ms <= monotonic_ms:
            left -= self._remove_some(queue[0], left)

    def _remove_some(self, removal: Removal, limit: int) -> int:
        """Returns how many files went; the removal leaves the queue with its last one."""
        try:
            count = removal.directory.remove_deleted(removal.path, limit)
        except StorageError:
            count = 0  # logged where the directory went offline; the next start goes on
        if count < limit:
            self.queue.popleft()
        return count
