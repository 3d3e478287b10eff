"""The periodic jobs over all logs."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice
from typing import Final

from ottla.base.errors import CorruptionError, StorageError
from ottla.base.partitions import TopicPartition
from ottla.broker.log_jobs.abort_checking import INTERVAL_MS, AbortChecking
from ottla.broker.log_jobs.file_checks import FileChecks
from ottla.broker.log_jobs.jobs import Jobs
from ottla.broker.log_jobs.retention import Retention
from ottla.broker.log_jobs.sliced_job import SlicedJob
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
    on_damage: Callable[[TopicPartition, CorruptionError], None],
) -> None:
    """`on_checked` is called with a partition after more aborted transactions were found, and
    `on_damage` with one of whose files another program has removed or shortened one.
    """

    def initial_ms() -> int:
        return config().log_initial_task_delay_ms

    jobs.add(
        lambda: config().log_retention_check_interval_ms,
        retention.run_slice,
        initial_ms=initial_ms,
    )
    jobs.add(
        lambda: config().log_retention_check_interval_ms,
        FileChecks(directories, on_damage).run_slice,
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


class CheckpointWriting(SlicedJob):
    """Writes checkpoints of all directories."""

    def __init__(
        self, directories: LogDirectories, write: Callable[[LogCheckpoints], Iterator[None]]
    ) -> None:
        super().__init__(directories)
        self._write = write

    def _all_steps(self) -> Iterator[None]:
        for directory in self.directories.online:
            with suppress(StorageError):  # logged where the directory went offline
                yield from self._write(directory.checkpoints)


class ProducerExpiry(SlicedJob):
    """Forgets producers of all logs that have been silent for too long, some in each step."""

    def __init__(self, directories: LogDirectories, expiration_ms: Callable[[], int]) -> None:
        super().__init__(directories)
        self._expiration_ms = expiration_ms

    def _all_steps(self) -> Iterator[None]:
        logs = [one for directory in self.directories for one in directory.logs.values()]
        for number, log in enumerate(logs, 1):
            if log.producers.entries:
                steps = log.producers.expire_in_steps(lambda: self.at, self._expiration_ms())
                yield from islice(steps, 1, None)
            if not number % LOGS_PER_STEP:
                yield
