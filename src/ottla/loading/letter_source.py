"""Reads records that only a dead-letter topic still has, in place of the log that has lost them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ottla.base.partitions import OffsetRange, TopicPartition
from ottla.base.values import dataclass
from ottla.record.batch_roll_up import BatchRollUp
from ottla.sources.log_source import (
    ANY_TASKS,
    LogPartition,
    LogSource,
    OffsetsGoneError,
    OnUnreadable,
    Split,
)
from ottla.sources.splits import SplitOptions

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Letters:
    """Records by partition, each once, sorted by offset, in the columns of `record.columns`."""

    rows: "Mapping[TopicPartition, pa.Table]"

    def runs(self, place: TopicPartition) -> list[OffsetRange]:
        """The ranges of neighbouring offsets."""
        found: list[OffsetRange] = []
        for offset in self.rows[place]["offset"].to_pylist():
            if found and found[-1].until_offset == offset:
                found[-1] = replace(found[-1], until_offset=offset + 1)
            else:
                found.append(OffsetRange(from_offset=offset, until_offset=offset + 1))
        return found

    def read(self, split: Split, columns: Sequence[str]) -> "Iterator[pa.RecordBatch]":
        """As `LogSource.read`."""
        yield from self.within(split.place, split).select(list(columns)).to_batches()

    def within(self, place: TopicPartition, wanted: OffsetRange) -> "pa.Table":
        import pyarrow.compute as pc

        offset = pc.field("offset")
        is_wanted = (offset >= wanted.from_offset) & (offset < wanted.until_offset)
        return self.rows[place].filter(is_wanted)


class LetterSource:
    """A `LogSource` that has only the letters, of the partitions of a log."""

    looks_by_reading = False

    def __init__(self, log: LogSource, letters: Letters) -> None:
        self._log = log
        self.letters = letters

    def partitions(
        self, *, allow_missing: bool = False, on_unreadable: OnUnreadable | None = None
    ) -> list[LogPartition]:
        there = self._log.partitions(allow_missing=allow_missing, on_unreadable=on_unreadable)
        return [self._with_letters(one) for one in there]

    def _with_letters(self, partition: LogPartition) -> LogPartition:
        if partition.place not in self.letters.rows:
            return partition
        first = self.letters.runs(partition.place)[0].from_offset
        return replace(partition, start_offset=min(partition.start_offset, first))

    def offsets_for_times(
        self, wanted: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int | None]:
        return self._log.offsets_for_times(wanted)

    def divergence_offset(self, place: TopicPartition, epoch: int, position: int) -> int | None:
        return self._log.divergence_offset(place, epoch, position)

    def splits(
        self, ranges: Mapping[TopicPartition, OffsetRange], options: SplitOptions = ANY_TASKS
    ) -> list[Split]:
        """One for each range: letters are in memory."""
        return [
            Split(place=place, from_offset=one.from_offset, until_offset=one.until_offset)
            for place, one in ranges.items()
        ]

    def read(self, split: Split, columns: Sequence[str]) -> "Iterator[pa.RecordBatch]":
        return self.letters.read(split, columns)

    def count_records(self, place: TopicPartition, wanted: OffsetRange) -> int:
        return int(self.letters.within(place, wanted).num_rows)

    def roll_up(self, place: TopicPartition, wanted: OffsetRange) -> BatchRollUp:
        """Raises `OffsetsGoneError`: the batches are gone."""
        raise OffsetsGoneError(place, wanted.from_offset, wanted.until_offset)
