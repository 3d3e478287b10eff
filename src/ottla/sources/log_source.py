"""The interface to a source of records: segment files or a broker.

A `LogSource` is created where a read is planned, and again in each task. Everything that a task
needs is therefore in its `Split`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Protocol

from ottla.base.ids import Uuid
from ottla.base.partitions import OffsetRange, TopicPartition
from ottla.base.values import dataclass
from ottla.record.batch_roll_up import BatchRollUp
from ottla.sources.conditions import RANGE_NOT_READ, ConditionError
from ottla.sources.splits import SplitOptions
from ottla.storage.index.transaction_index import AbortedTransaction

if TYPE_CHECKING:
    import pyarrow as pa

    from ottla.storage.reading.tier_share import TierShare

ANY_TASKS = SplitOptions()

OnUnreadable = Callable[[TopicPartition, Exception], None]
"""What a partition that cannot be opened is given to, with why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPartition:
    """The current state of one partition of a log.

    `end_offset` is the end of readable records, never below `start_offset`: an open transaction may
    have begun before records that were deleted. `leader_epoch` is the log's latest epoch, `None` if
    unknown. `first_segment_offset` is the base offset of the first segment, known only when files
    are read: if the log starts after it, DeleteRecords removed records, otherwise retention.
    """

    topic: str
    topic_id: Uuid | None
    partition: int
    start_offset: int
    end_offset: int
    log_end_offset: int | None = None
    """The log end offset, which includes open transactions; `None` if unknown."""
    leader_epoch: int | None = None
    first_segment_offset: int | None = field(default=None, compare=False)

    @property
    def place(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


@dataclass(frozen=True, slots=True, kw_only=True)
class Split(OffsetRange):
    """The offsets that one task reads. `aborted` are the transactions whose records are left out.

    If `topic_id` is set, the task fails if the topic was re-created since the read was planned.
    `tier` is what the task needs to know of the uploads that have these offsets.
    """

    place: TopicPartition
    topic_id: Uuid | None = None
    aborted: tuple[AbortedTransaction, ...] = ()
    tier: "TierShare | None" = None


class OffsetsGoneError(ConditionError):
    """Offsets of a split are no longer in the log, which now begins at `start_offset`."""

    def __init__(self, place: TopicPartition, offset: int, start_offset: int) -> None:
        super().__init__(
            f"{place}: offsets {offset} to {start_offset - 1} were removed while they were read; "
            f"run it again",
            RANGE_NOT_READ,
        )
        self.start_offset = start_offset


class LogSource(Protocol):
    """The chosen partitions. Methods raise `UserError` if the log cannot be read."""

    def partitions(
        self, *, allow_missing: bool = False, on_unreadable: OnUnreadable | None = None
    ) -> list[LogPartition]:
        """Current ids and offsets; without `allow_missing` every named topic must exist.

        A partition of files that is damaged or lost is an error, or left out and given to
        `on_unreadable`.

        As in Spark's own source, assigned partitions that do not exist are left out, and a pattern
        may match no topic.
        """

    def offsets_for_times(
        self, wanted: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int | None]:
        """The first offset with a timestamp (in ms) at or after the given one; `None` if there is
        none.
        """

    def divergence_offset(self, place: TopicPartition, epoch: int, position: int) -> int | None:
        """Where the log diverged from the log of a leader epoch, if below `position` (KIP-320).

        `None` if no divergence is known.
        """

    def splits(
        self, ranges: Mapping[TopicPartition, OffsetRange], options: SplitOptions = ANY_TASKS
    ) -> list[Split]:
        """Divides the ranges into tasks."""

    def read(self, split: Split, columns: Sequence[str]) -> "Iterator[pa.RecordBatch]":
        """The split's records, in columns named as in `ottla.record.columns`.

        Raises `OffsetsGoneError` if records are removed before they are read.
        """

    @property
    def looks_by_reading(self) -> bool:
        """Whether counting and rolling up fetch all records of the range."""

    def count_records(self, place: TopicPartition, wanted: OffsetRange) -> int:
        """The number of records in a range."""

    def roll_up(self, place: TopicPartition, wanted: OffsetRange) -> BatchRollUp:
        """The roll-up of the batches in a range."""


def read_ranges(
    log: LogSource, ranges: Mapping[TopicPartition, OffsetRange], columns: Sequence[str]
) -> "pa.Table":
    """All records of ranges that fit into memory, in columns of `ottla.record.columns`."""
    import pyarrow as pa

    from ottla.record.columns import schema

    batches = [batch for split in log.splits(ranges) for batch in log.read(split, columns)]
    return pa.Table.from_batches(batches, schema(columns))
