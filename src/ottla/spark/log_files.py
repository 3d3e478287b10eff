"""A topic read from the segment files of a data directory, beside a live broker too."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from os import cpu_count
from typing import TYPE_CHECKING

from ottla.base.errors import ApiError, CorruptionError, UserError
from ottla.record.batch import InvalidBatchError, RecordBatch, iter_batches
from ottla.record.columns import iter_columns
from ottla.record.record import read_records
from ottla.spark.batch_roll_up import roll_up
from ottla.spark.log_source import Split
from ottla.spark.manifest import BatchRollUp, OffsetRange
from ottla.spark.plan import LogPartition
from ottla.spark.splits import SplitRule, Stretch, split_ranges
from ottla.storage.aborted_ranges import AbortedRanges
from ottla.storage.reader import ReadOnlyLog, ReadOnlyLogDirectory, open_for_reading

if TYPE_CHECKING:
    import pyarrow as pa

    from ottla.record.batch import Batch
    from ottla.storage.segment_reader import Region

MIN_TASK_SIZE = 4 * 1024 * 1024
"""Bytes of the log below which a task of its own costs more than it saves."""

MAX_TASK_SIZE = 128 * 1024 * 1024
"""Bytes of the log that a task reads at the most, about, and so what goes into a Parquet file."""


class LogFiles:
    """See `LogSource`."""

    def __init__(self, path: str, topic: str) -> None:
        self._path = path
        self._topic = topic

    @cached_property
    def _directory(self) -> ReadOnlyLogDirectory:
        return open_for_reading(self._path)

    def partitions(self) -> list[LogPartition]:
        numbers = self._directory.topics().get(self._topic)
        if numbers is None:
            self._log(0)  # Raises the error that names the topics there are.
            raise UserError(f"{self._path}: topic {self._topic} is just being created")
        return [_offered(self._log(number)) for number in numbers]

    def splits(self, ranges: Mapping[int, OffsetRange], min_count: int | None) -> list[Split]:
        rule = SplitRule(
            min_count=min_count or cpu_count() or 1,
            min_size=1 if min_count else MIN_TASK_SIZE,
            max_size=MAX_TASK_SIZE,
        )
        logs = {number: self._log(number) for number in ranges}
        stretches = {number: _stretches(logs[number], ranges[number]) for number in ranges}
        return [
            Split(
                partition=number,
                from_offset=part.from_offset,
                until_offset=part.until_offset,
                aborted=tuple(
                    logs[number].aborted_transactions(part.from_offset, part.until_offset)
                ),
            )
            for number, part in split_ranges(stretches, rule)
        ]

    def read(self, split: Split, columns: Sequence[str]) -> "Iterator[pa.RecordBatch]":
        aborted = AbortedRanges(split.aborted)
        try:
            for region in self._log(split.partition).regions(split.from_offset, split.until_offset):
                yield from _decoded(region, split, columns, aborted)
        except ApiError as error:
            raise _moved(self._topic, split.partition, error) from error

    def count_records(self, partition: int, wanted: OffsetRange) -> int:
        """From the batches' headers; only where a range cuts a batch are records looked at."""
        log = self._log(partition)
        aborted = AbortedRanges(log.aborted_transactions(wanted.from_offset, wanted.until_offset))
        try:
            return sum(
                _count(batch, wanted)
                for batch in log.batches(wanted.from_offset, wanted.until_offset)
                if not batch.is_control and not aborted.covers(batch)
            )
        except ApiError as error:
            raise _moved(self._topic, partition, error) from error

    def roll_up(self, partition: int, wanted: OffsetRange) -> BatchRollUp:
        """From the batches' headers: that their CRCs are right is for those to see who read."""
        log = self._log(partition)
        try:
            return roll_up(log.headers(wanted.from_offset, wanted.until_offset))
        except ApiError as error:
            raise _moved(self._topic, partition, error) from error

    def _log(self, partition: int) -> ReadOnlyLog:
        return self._directory.partition(self._topic, partition)


def _offered(log: ReadOnlyLog) -> LogPartition:
    return LogPartition(
        topic=log.topic,
        topic_id=log.topic_id,
        partition=log.partition,
        start_offset=log.log_start_offset,
        end_offset=max(log.log_start_offset, log.last_stable_offset),
        log_end_offset=log.log_end_offset,
    )


def _stretches(log: ReadOnlyLog, wanted: OffsetRange) -> list[Stretch]:
    """The segments' parts of a range. The ends of the range are kept, whatever the files hold."""
    bounds = [*(segment.base_offset for segment in log.segments), log.log_end_offset]
    whole = [
        Stretch(from_offset=from_offset, until_offset=until_offset, size=segment.size)
        for segment, (from_offset, until_offset) in zip(log.segments, pairwise(bounds), strict=True)
        if from_offset < until_offset
    ]
    return [part for stretch in whole if (part := stretch.within(wanted)) is not None]


def _decoded(
    region: "Region", split: Split, columns: Sequence[str], aborted: AbortedRanges
) -> "Iterator[pa.RecordBatch]":
    try:
        for data in _kept(region.data, aborted) if split.aborted else [region.data]:
            yield from iter_columns(data, columns, split.from_offset, split.until_offset)
    except InvalidBatchError as error:
        raise CorruptionError(region.path, region.position, str(error)) from error


def _kept(data: memoryview, aborted: AbortedRanges) -> Iterator[memoryview]:
    """The runs of batches between those of aborted transactions."""
    start = position = 0
    for batch in iter_batches(data):
        end = position + batch.size
        if aborted.covers(batch):
            if position > start:
                yield data[start:position]
            start = end
        position = end
    if position > start:
        yield data[start:position]


def _count(batch: "Batch", wanted: OffsetRange) -> int:
    is_inside = batch.base_offset >= wanted.from_offset and batch.last_offset < wanted.until_offset
    if is_inside and isinstance(batch, RecordBatch):
        return batch.record_count
    return sum(
        wanted.from_offset <= record.offset < wanted.until_offset for record in read_records(batch)
    )


def _moved(topic: str, partition: int, error: ApiError) -> UserError:
    return UserError(
        f"{topic}-{partition}: records were removed while they were read ({error.message}); "
        f"run it again"
    )
