"""The source of records: one interface over segment files and a broker's wire.

A `LogSource` is made twice: where a read is planned, and again in each task. So everything that a
task needs to know stands in its `Split`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Protocol

from ottla.base.errors import UserError
from ottla.base.ids import Uuid
from ottla.base.partitions import OffsetRange, TopicPartition
from ottla.base.values import dataclass
from ottla.record.batch_roll_up import BatchRollUp
from ottla.sources.splits import SplitOptions
from ottla.storage.index.transaction_index import AbortedTransaction

if TYPE_CHECKING:
    import pyarrow as pa

ANY_TASKS = SplitOptions()


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPartition:
    """The current state of one partition of a log.

    `end_offset` is the end of readable records, never below `start_offset`: an open transaction may
    have begun before records that were deleted. `leader_epoch` is the log's latest one, `None` if
    unknown; `first_segment_offset` is where its files begin, known only to readers of files: a log
    that starts after it was cut by DeleteRecords, not by retention.
    """

    topic: str
    topic_id: Uuid | None
    partition: int
    start_offset: int
    end_offset: int
    log_end_offset: int | None = None
    """Log end offset, including open transactions; `None` if unknown."""
    leader_epoch: int | None = None
    first_segment_offset: int | None = field(default=None, compare=False)

    @property
    def place(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


@dataclass(frozen=True, slots=True, kw_only=True)
class Split(OffsetRange):
    """What one task reads. `aborted` are the transactions whose records it must leave out.

    With a `topic_id` a task refuses a topic that was re-created since the read was planned.
    """

    place: TopicPartition
    topic_id: Uuid | None = None
    aborted: tuple[AbortedTransaction, ...] = ()


class OffsetsGoneError(UserError):
    """Offsets of a split are no longer in the log; it continues at `start_offset`."""

    def __init__(self, place: TopicPartition, offset: int, start_offset: int) -> None:
        super().__init__(
            f"{place}: offsets {offset} to {start_offset - 1} were removed while they were read; "
            f"run it again"
        )
        self.start_offset = start_offset


class LogSource(Protocol):
    """The partitions that were chosen. Raises `UserError` when they cannot be had."""

    def partitions(self, *, allow_missing: bool = False) -> list[LogPartition]:
        """Ids and offsets as they are now; without `allow_missing` each topic named must exist."""

    def offsets_for_times(
        self, wanted: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int | None]:
        """The first offset whose record is of that time (in ms) or later; `None` without one."""

    def divergence_offset(self, place: TopicPartition, epoch: int, position: int) -> int | None:
        """Where the log parts from what it was in a leader epoch, if that is before `position`.

        `None` when all up to there is as it was, as far as the log shows (KIP-320).
        """

    def splits(
        self, ranges: Mapping[TopicPartition, OffsetRange], options: SplitOptions = ANY_TASKS
    ) -> list[Split]:
        """Tasks for these ranges."""

    def read(self, split: Split, columns: Sequence[str]) -> "Iterator[pa.RecordBatch]":
        """The split's records, in columns named as `ottla.record.columns` names them.

        Raises `OffsetsGoneError` for those that are removed before they are read.
        """

    @property
    def looks_by_reading(self) -> bool:
        """Whether to count or roll up is to fetch all of a range, records and all."""

    def count_records(self, place: TopicPartition, wanted: OffsetRange) -> int | None:
        """How many records a range has; `None` when only decoding it would show."""

    def roll_up(self, place: TopicPartition, wanted: OffsetRange) -> BatchRollUp | None:
        """What the batches of a range come to; `None` where no batches can be seen."""


def read_ranges(
    log: LogSource, ranges: Mapping[TopicPartition, OffsetRange], columns: Sequence[str]
) -> "pa.Table":
    """All records of ranges that fit into memory, in columns of `ottla.record.columns`."""
    import pyarrow as pa

    from ottla.record.columns import schema

    batches = [batch for split in log.splits(ranges) for batch in log.read(split, columns)]
    return pa.Table.from_batches(batches, schema(columns))
