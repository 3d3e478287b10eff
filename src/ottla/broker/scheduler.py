"""What a broker does as time passes. Kafka's counterpart: `KafkaScheduler`."""

from contextlib import suppress

from ottla.base.errors import StorageError
from ottla.base.open_files import OpenFiles
from ottla.base.timers import AllTimers
from ottla.base.timestamps import Timestamps
from ottla.base.values import dataclass
from ottla.broker.log_jobs.log_jobs import LogJobs
from ottla.broker.metadata.log import MetadataLog, NoMetadataLog
from ottla.broker.records.answers import Answers
from ottla.broker.topics.topic_store import TopicStore


@dataclass(slots=True, kw_only=True, eq=False)
class Scheduler:
    """`timers` has the deadlines of work that no client's request waits for."""

    timers: AllTimers
    answers: Answers
    store: TopicStore
    log_jobs: LogJobs
    metadata: MetadataLog | NoMetadataLog
    open_files: OpenFiles

    @property
    def next_deadline_ms(self) -> float | None:
        """When `Answers.take_answered` or `run_due` has work, on the monotonic clock."""
        answer_ms, job_ms = self.answers.next_deadline_ms, self.next_job_ms
        if answer_ms is None or job_ms is None:
            return job_ms if answer_ms is None else answer_ms
        return min(answer_ms, job_ms)

    @property
    def next_job_ms(self) -> float | None:
        """When a job is due that no client's request waits for, on the monotonic clock."""
        if self.metadata.is_due_for_snapshot:
            return 0.0
        return self.timers.next_deadline_ms

    def run_due(self, at: Timestamps) -> None:
        """Does what `Answers.advance` does, removes the files of deleted topics and segments, runs
        due jobs, and advances moves of partitions.
        """
        if self.open_files.is_over:
            self.open_files.give_back()
        self.answers.advance(at)
        self.store.remove_files(at.monotonic_ms)
        self.log_jobs.segment_removals.run(at.monotonic_ms)
        if self.metadata.is_due_for_snapshot and self.store.directories.is_complete:
            with suppress(StorageError):  # logged when the directory went offline
                self.metadata.advance_snapshot()
        self.log_jobs.periodic.advance(at)
        self.log_jobs.moves.advance(at)
