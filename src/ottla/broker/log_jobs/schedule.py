"""The periodic jobs over all logs."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice
from typing import Final

from ottla.base.errors import StorageError
from ottla.base.partitions import TopicPartition
from ottla.base.timestamps import Timestamps
from ottla.broker.log_jobs.abort_checking import INTERVAL_MS, AbortChecking
from ottla.broker.log_jobs.jobs import Jobs
from ottla.broker.log_jobs.retention import Retention
from ottla.config.broker import BrokerConfig
from ottla.storage.directory.log_checkpoints import LogCheckpoints
from ottla.storage.directory.log_directories import LogDirectories

LOGS_PER_STEP: Final = 256


def schedule_log_jobs(
    jobs: Jobs,
    directories: LogDirectories,
    config: Callable[[], BrokerConfig],
    retention: Retention,
    on_checked: Callable[[TopicPartition], None],
) -> None:
    """`on_checked` is called with a partition after more aborted transactions were found."""

    def initial_ms() -> int:
        return config().log_initial_task_delay_ms

    jobs.add(
        lambda: config().log_retention_check_interval_ms,
        retention.run_slice,
        initial_ms=initial_ms,
    )
    jobs.add(
        lambda: config().log_flush_offset_checkpoint_interval_ms,
        CheckpointWriting(directories, LogCheckpoints.write_in_steps).run_slice,
        initial_ms=initial_ms,
    )
    jobs.add(
        lambda: config().log_flush_start_offset_checkpoint_interval_ms,
        CheckpointWriting(directories, LogCheckpoints.write_log_starts_in_steps).run_slice,
        initial_ms=initial_ms,
    )
    jobs.add(
        lambda: INTERVAL_MS,
        AbortChecking(directories, on_checked).run_slice,
        initial_ms=lambda: 0,
    )
    jobs.add(
        lambda: config().producer_id_expiration_check_interval_ms,
        ProducerExpiry(directories, lambda: config().producer_id_expiration_ms).run_slice,
    )


def schedule_replicas(
    jobs: Jobs, directories: LogDirectories, config: Callable[[], BrokerConfig]
) -> None:
    """Schedules the checkpoints of high watermarks: a restarted member of a cluster begins with
    them.
    """
    jobs.add(
        lambda: config().replica_high_watermark_checkpoint_interval_ms,
        CheckpointWriting(directories, LogCheckpoints.write_high_watermarks_in_steps).run_slice,
    )


class _SlicedJob:
    """A job over all logs, of which each round of the server's loop does a step."""

    def __init__(self, directories: LogDirectories) -> None:
        self._directories = directories
        self._at = Timestamps(now_ms=0, monotonic_ms=0.0)
        self._steps: Iterator[None] | None = None

    def run_slice(self, at: Timestamps) -> bool:
        """Does the next step; returns whether more are left."""
        self._at = at
        if self._steps is None:
            self._steps = self._all_steps()
        for _step in self._steps:
            return True
        self._steps = None
        return False

    def _all_steps(self) -> Iterator[None]:
        raise NotImplementedError


class CheckpointWriting(_SlicedJob):
    """Writes checkpoints of all directories."""

    def __init__(
        self, directories: LogDirectories, write: Callable[[LogCheckpoints], Iterator[None]]
    ) -> None:
        super().__init__(directories)
        self._write = write

    def _all_steps(self) -> Iterator[None]:
        for directory in self._directories.online:
            with suppress(StorageError):  # logged where the directory went offline
                yield from self._write(directory.checkpoints)


class ProducerExpiry(_SlicedJob):
    """Forgets producers of all logs that have been silent for too long, some in each step."""

    def __init__(self, directories: LogDirectories, expiration_ms: Callable[[], int]) -> None:
        super().__init__(directories)
        self._expiration_ms = expiration_ms

    def _all_steps(self) -> Iterator[None]:
        logs = [one for directory in self._directories for one in directory.logs.values()]
        for number, log in enumerate(logs, 1):
            if log.producers.entries:
                steps = log.producers.expire_in_steps(lambda: self._at, self._expiration_ms())
                yield from islice(steps, 1, None)
            if not number % LOGS_PER_STEP:
                yield
