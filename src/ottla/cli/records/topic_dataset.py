"""A topic as DuckDB asks a dataset of pyarrow: for some columns of the rows that pass a filter.

Each scan reads only the partitions and offsets in which the filter may hold, decodes only the
columns that it needs, and reads on only while rows are taken.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyarrow.fs import LocalFileSystem

from ottla.base.partitions import OffsetRange, TopicPartition
from ottla.cli.records.arrow_export import ExportedRange, export_schema
from ottla.sources.log_source import LogSource
from ottla.sources.pruning import Condition, prune

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LAST_TIME_MS = 1 << 47
"""Beyond what a date can be."""


Ranges = dict[TopicPartition, OffsetRange]


class TopicDataset(ds.Dataset):  # type: ignore[misc]
    """`open_source` is called for each scan: DuckDB may run several at once."""

    def __init__(self, topic: str, ranges: Ranges, open_source: Callable[[], LogSource]) -> None:
        self._topic = topic
        self._ranges = ranges
        self._open_source = open_source

    @property
    def schema(self) -> pa.Schema:
        return export_schema()

    def scanner(self, columns: Sequence[str] | None = None, filter: Any = None, **_: Any) -> "Scan":
        """As `pyarrow.dataset.Dataset.scanner`."""
        wanted = ExportedRange(topic=self._topic, source=self._open_source(), ranges=self._ranges)
        if filter is not None:
            wanted = replace(wanted, ranges=ranges_that_may_match(wanted, filter))
        return Scan(wanted, list(columns or self.schema.names), filter)


@dataclass(frozen=True, slots=True)
class Scan:
    """The rows of one scan, read as they are taken."""

    exported: ExportedRange
    columns: list[str]
    filter: Any

    def to_reader(self) -> pa.RecordBatchReader:
        schema = export_schema()
        narrow = pa.schema([schema.field(one) for one in self.columns])
        return pa.RecordBatchReader.from_batches(narrow, self._batches())

    def _batches(self) -> Iterator[pa.RecordBatch]:
        if self.filter is None:
            yield from self.exported.batches(self.columns)
            return
        # Arrow names the columns of a filter to nobody.
        needed = [one for one in export_schema().names if one in self.columns or self._asks(one)]
        for batch in self.exported.batches(needed):
            yield batch.filter(self.filter).select(self.columns)

    def _asks(self, column: str) -> bool:
        return column in str(self.filter)


def ranges_that_may_match(exported: ExportedRange, condition: Any) -> Ranges:
    """The ranges outside which a filter holds for no record.

    Arrow judges whether a filter can hold where something is known of the rows, as of a file of a
    partitioned dataset; what it cannot judge is kept.
    """
    may_hold = Judge(condition)
    kept = {}
    for place, wanted in exported.ranges.items():
        cut = _cut(may_hold, place, wanted)
        if cut is not None:
            kept[place] = cut
    since = _least_time(may_hold)
    if since is None or not kept:
        return kept
    later = Condition(name="GreaterThanOrEqual", column="timestamp", value=since)
    return prune(kept, [later], exported.source)


class Judge:
    """Whether a filter may hold for a row of which something is known."""

    def __init__(self, condition: Any) -> None:
        self._condition = condition
        self._format = ds.IpcFileFormat()
        self._nowhere = LocalFileSystem()

    def __call__(self, known: Any) -> bool:
        fragment = self._format.make_fragment(
            "none", filesystem=self._nowhere, partition_expression=known
        )
        dataset = ds.FileSystemDataset([fragment], export_schema(), self._format, self._nowhere)
        return any(True for _ in dataset.get_fragments(self._condition))


def _cut(may_hold: Judge, place: TopicPartition, wanted: OffsetRange) -> OffsetRange | None:
    """The part in which the filter may hold; `None` where it holds nowhere."""
    here, offset = pc.field("partition") == place.partition, pc.field("offset")
    last = wanted.until_offset - 1

    def between(least: int, most: int) -> bool:
        return may_hold(here & (offset >= least) & (offset <= most))

    if not between(wanted.from_offset, last):
        return None
    first = _least(wanted.from_offset, last, lambda one: between(wanted.from_offset, one))
    end = last - _least(0, last - first, lambda one: between(last - one, last))
    return OffsetRange(from_offset=first, until_offset=end + 1)


def _least_time(may_hold: Judge) -> datetime | None:
    """The time before which no record passes; `None` where records without a time may pass."""
    column = pc.field("timestamp")
    kind = export_schema().field("timestamp").type

    def until(time_ms: int) -> bool:
        return may_hold(column <= pa.scalar(time_ms, pa.int64()).cast(kind))

    if until(0) or may_hold(column.is_null()):
        return None
    least_ms = _least(0, LAST_TIME_MS, until)
    return EPOCH + timedelta(milliseconds=least_ms) if least_ms < LAST_TIME_MS else None


def _least(first: int, last: int, holds: Callable[[int], bool]) -> int:
    """The least number for which `holds`, of which all larger ones do; `last` is not asked."""
    while first < last:
        middle = (first + last) // 2
        if holds(middle):
            last = middle
        else:
            first = middle + 1
    return first
