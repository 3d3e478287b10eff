"""The compaction status of a log: what is compacted, what the cleaner would do, and blockers."""

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
from ottla.storage.files.filenames import CHECKPOINT_CLEANER, FileSuffix, parse_file_names
from ottla.storage.reading.read_only_log import ReadOnlyLog


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionStatus:
    """The status of one partition, with the cleaner's failures and the broker's settings."""

    topic: str
    partition: int
    path: str
    explanation: CompactionExplanation
    trouble: Trouble
    broker: BrokerConfig
    open_transaction: tuple[int, int] | None
    """Producer id and first offset of the transaction that holds the last stable offset."""
    is_at_work: bool
    """Whether `.cleaned` files of a running pass exist."""
    now_ms: int

    @property
    def directory(self) -> str:
        """The log directory, for commands in messages."""
        return self.path.rpartition("/")[0]

    @property
    def retry_ms(self) -> int | None:
        """When the cleaner retries after a failure; `None` if it need not wait."""
        return self.trouble.retry_ms(self.broker.log_cleaner_backoff_ms, self.now_ms)

    @property
    def will_be(self) -> bool:
        """Whether a running broker would begin a pass in its next round."""
        is_off = not self.broker.log_cleaner_enable
        return self.explanation.waits is None and not is_off and self.retry_ms is None


def compaction_status(log: ReadOnlyLog, directories: Directories, now_ms: int) -> CompactionStatus:
    """The status of a log; raises `UserError` for a log without segments."""
    key = TopicPartition(log.topic, log.partition)
    parent = log.path.rpartition("/")[0]
    directory = next(one for one in directories.opened if one.path.rstrip("/") == parent)
    if not log.segments:
        raise UserError(f"{log.path} has no segment, so there is nothing to compact")
    try:
        troubles = read_troubles(directories.file_system, directory.path)
        view = read_view(
            log, directory.checkpointed(CHECKPOINT_CLEANER).get(key), directories.file_system
        )
    except CorruptionError as error:
        raise RefusalError(f"{error}; run ottla log check {directory.path}") from error
    names = directories.file_system.list(log.path)
    oldest = next(iter(log.transactions.open), None)
    return CompactionStatus(
        topic=log.topic,
        partition=log.partition,
        path=log.path,
        explanation=explain(view, directories.config(log.topic), now_ms),
        trouble=troubles.get(key, Trouble()),
        broker=directories.broker,
        open_transaction=None if oldest is None else (oldest.producer_id, oldest.first_offset),
        is_at_work=bool(parse_file_names(names, suffixes=[FileSuffix.CLEANED])),
        now_ms=now_ms,
    )
