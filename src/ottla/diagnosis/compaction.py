"""How far a log is compacted, what the cleaner would do now, and what holds it back."""

from ottla.base.errors import CorruptionError, RefusalError, UserError
from ottla.base.partitions import TopicPartition
from ottla.base.values import dataclass
from ottla.broker.log_jobs.cleaner_troubles import Trouble, read_troubles
from ottla.config.broker import BrokerConfig
from ottla.diagnosis.directories import Directories
from ottla.storage.diagnosis.compaction_explanation import (
    CompactionExplanation,
    explain,
    read_view,
)
from ottla.storage.files.filenames import CHECKPOINT_CLEANER, FileSuffix, parse_file_name
from ottla.storage.reading.read_only_log import ReadOnlyLog


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionStatus:
    """One partition, with the cleaner's troubles and the broker's own settings."""

    topic: str
    partition: int
    path: str
    explanation: CompactionExplanation
    trouble: Trouble
    broker: BrokerConfig
    open_transaction: tuple[int, int] | None
    """Of the one that holds the last stable offset: producer id and first offset."""
    is_at_work: bool
    """Whether files of a pass under way are there."""
    now_ms: int

    @property
    def directory(self) -> str:
        """The log directory, for the commands that are named."""
        return self.path.rpartition("/")[0]

    @property
    def retry_ms(self) -> int | None:
        """Until when the cleaner leaves the log alone after a failure."""
        return self.trouble.retry_ms(self.broker.log_cleaner_backoff_ms, self.now_ms)

    @property
    def will_be(self) -> bool:
        """Whether a running broker would begin a pass at its next look."""
        is_off = not self.broker.log_cleaner_enable
        return self.explanation.waits is None and not is_off and self.retry_ms is None


def compaction_status(log: ReadOnlyLog, directories: Directories, now_ms: int) -> CompactionStatus:
    """Raises `UserError` for a log of which nothing can be compacted."""
    key = TopicPartition(log.topic, log.partition)
    parent = log.path.rpartition("/")[0]
    directory = next(one for one in directories.opened if one.path.rstrip("/") == parent)
    if not log.segments:
        raise UserError(f"{log.path} has no segment: nothing of it can be compacted")
    try:
        troubles = read_troubles(directories.file_system, directory.path)
        view = read_view(
            log, directory.checkpointed(CHECKPOINT_CLEANER).get(key), directories.file_system
        )
    except CorruptionError as error:
        raise RefusalError(f"{error}; ottla log check {directory.path} looks closer") from error
    names = map(parse_file_name, directories.file_system.list(log.path))
    oldest = next(iter(log.open_transactions), None)
    return CompactionStatus(
        topic=log.topic,
        partition=log.partition,
        path=log.path,
        explanation=explain(view, directories.config(log.topic), now_ms),
        trouble=troubles.get(key, Trouble()),
        broker=directories.broker,
        open_transaction=None if oldest is None else (oldest.producer_id, oldest.first_offset),
        is_at_work=any(one is not None and one.suffix is FileSuffix.CLEANED for one in names),
        now_ms=now_ms,
    )
