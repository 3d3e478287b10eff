"""A snapshot of one partition's log for a process that only reads.

A tail that a crash has torn is skipped: the log ends before it. Anything else is damage
(`read_damage`): a bad batch below the recovery point or after a clean shutdown, and a log that ends
before its recovery point. Format pages: docs/format/README.md. Kafka has no counterpart.
"""

from typing import TYPE_CHECKING

from ottla.base.ids import Uuid
from ottla.storage.log.leader_epochs import LeaderEpochs
from ottla.storage.reading.batch_reader import BatchReader
from ottla.storage.reading.log_damage import DamageOnDisk
from ottla.storage.reading.log_facts import LogFacts
from ottla.storage.reading.offsets import OffsetsOnDisk
from ottla.storage.reading.read_damage import KnownEnd
from ottla.storage.reading.record_reader import RecordReader
from ottla.storage.reading.transactions import TransactionsOnDisk
from ottla.storage.segment.partition_files import ListedSegmentFiles, PartitionFiles

if TYPE_CHECKING:
    from ottla.storage.reading.read_only_directory import ReadOnlyLogDirectory


class ReadOnlyLog:
    """A partition's log as of its construction; later appends are not seen.

    Its parts are the `offsets` at which it begins and ends, its `damage`, and its `batches`,
    `records` and `transactions`. Reads raise `CorruptionError` for damage, with the repair commands
    in its reason, `ApiError(OFFSET_OUT_OF_RANGE)` for offsets outside the log or deleted by
    retention during the read (`overtaking.ask_log` retries), and `UserError` if the partition is
    deleted.
    """

    def __init__(
        self,
        directory: "ReadOnlyLogDirectory",
        topic: str,
        partition: int,
        files: PartitionFiles,
        known: KnownEnd,
    ) -> None:
        self._facts = facts = LogFacts(directory, topic, partition, files, known)
        self.directory = directory
        self.topic = topic
        self.partition = partition
        self.path = facts.path
        self.offsets = OffsetsOnDisk(facts)
        self.damage = DamageOnDisk(facts, self.offsets)
        self.batches = BatchReader(facts, self.offsets, self.damage)
        self.transactions = TransactionsOnDisk(facts, self.offsets, self.batches)
        self.records = RecordReader(facts, self.offsets, self.batches, self.transactions)

    @property
    def files(self) -> PartitionFiles:
        """The files of its directory as they were listed last."""
        return self._facts.listed.files

    @property
    def segments(self) -> ListedSegmentFiles:
        """The segments, ascending; the log may start inside the first and end inside the last."""
        return self._facts.segments

    @property
    def topic_id(self) -> Uuid | None:
        """The topic's id; `None` in a directory written by Kafka before 2.8."""
        return self._facts.topic_id

    @property
    def leader_epochs(self) -> LeaderEpochs:
        """The start offset of each leader epoch; raises `CorruptionError`."""
        return self._facts.leader_epochs

    @property
    def log_start_offset(self) -> int:
        return self.offsets.log_start_offset

    @property
    def recorded_start(self) -> int:
        """The log start in the checkpoint, 0 without one; of a tiered log without its tier it is
        where the log begins, and `log_start_offset` where its local segments do.
        """
        return self._facts.recorded_start

    @property
    def log_end_offset(self) -> int:
        """The offset after the last batch that the log must hold, readable or not."""
        return self.offsets.log_end_offset
