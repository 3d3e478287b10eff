"""A topic as DuckDB queries a dataset of pyarrow: some columns of the rows that pass a filter.

Each scan reads only the partitions and offsets in which the filter may match, decodes only the
columns that it needs, and reads on only while rows are consumed.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyarrow.fs import LocalFileSystem

from ottla.base.partitions import OffsetRange, TopicPartition
from ottla.base.values import dataclass
from ottla.cli.records.arrow_export import ExportedRange, export_schema, with_calendar_times
from ottla.sources.log_source import LogSource
from ottla.sources.pruning import Condition, prune

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LAST_TIME_MS = 1 << 47
"""A timestamp beyond any date."""


Ranges = dict[TopicPartition, OffsetRange]


class TopicDataset(ds.Dataset):  # type: ignore[misc]
    """A dataset for DuckDB; `open_source` is called for each scan, since several may run at
    once.

    A query raises the first of `failures` instead of DuckDB's error, which has a scan's error only
    as a text.
    """

    def __init__(
        self,
        exported: ExportedRange,
        open_source: Callable[[], LogSource],
        texts: Collection[str] = (),
    ) -> None:
        """`texts` are the columns of bytes that are text instead, null where they are not UTF-8.

        A partition that cannot be opened fails the scans that may need it, and no others.
        """
        self._exported = exported
        self._open_source = open_source
        self._schema = schema_with(texts)
        self.failures: list[Exception] = []

    @property
    def schema(self) -> pa.Schema:
        return self._schema

    def scanner(self, columns: Sequence[str] | None = None, filter: Any = None, **_: Any) -> "Scan":
        """As `pyarrow.dataset.Dataset.scanner`."""
        wanted = replace(self._exported, source=self._open_source())
        if filter is not None:
            wanted = replace(
                wanted,
                ranges=ranges_that_may_match(wanted, filter, self.schema),
                unreadable=unreadable_that_may_match(wanted, filter, self.schema),
            )
        names = list(columns or self.schema.names)
        return Scan(wanted, names, self.schema, filter, self.failures)


@dataclass(frozen=True, slots=True)
class Scan:
    """The rows of one scan, read as they are consumed."""

    exported: ExportedRange
    columns: list[str]
    schema: pa.Schema
    filter: Any
    failures: list[Exception]

    def to_reader(self) -> pa.RecordBatchReader:
        narrow = pa.schema([self.schema.field(one) for one in self.columns])
        return pa.RecordBatchReader.from_batches(narrow, self._noting_failures())

    def _noting_failures(self) -> Iterator[pa.RecordBatch]:
        try:
            yield from self._batches()
        except Exception as error:
            self.failures.append(error)
            raise

    def _batches(self) -> Iterator[pa.RecordBatch]:
        if self.filter is None:
            yield from map(self._shown, self.exported.batches(self.columns))
            return
        # Arrow does not expose the column names of a filter.
        needed = [one for one in self.schema.names if one in self.columns or self._asks(one)]
        for batch in map(self._shown, self.exported.batches(needed)):
            yield batch.filter(self.filter).select(self.columns)

    def _shown(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        batch = with_calendar_times(batch)
        for place, column in enumerate(batch.schema):
            wanted = self.schema.field(column.name)
            if wanted.type != column.type:
                batch = batch.set_column(place, wanted, as_text(batch.column(place)))
        return batch

    def _asks(self, column: str) -> bool:
        return column in str(self.filter)


def schema_with(texts: Collection[str]) -> pa.Schema:
    """The columns of a topic, some of them as text instead of bytes.

    `offset` is the first, since DuckDB reads the first one to count rows.
    """
    columns = sorted(export_schema(), key=lambda one: one.name != "offset")
    return pa.schema([one.with_type(pa.string()) if one.name in texts else one for one in columns])


def as_text(values: pa.Array) -> pa.Array:
    """Bytes as text: null where they are not UTF-8."""
    try:
        return values.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array(map(_text, values.to_pylist()), pa.string())


def _text(value: bytes | None) -> str | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return None


def ranges_that_may_match(exported: ExportedRange, condition: Any, schema: pa.Schema) -> Ranges:
    """Returns the ranges outside which a filter matches no record.

    Arrow decides whether a filter can match rows of which something is known, as for a file of a
    partitioned dataset; ranges that it cannot decide are kept.
    """
    may_hold = Judge(condition, schema)
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


def unreadable_that_may_match(
    exported: ExportedRange, condition: Any, schema: pa.Schema
) -> dict[TopicPartition, Exception]:
    """Returns the partitions that cannot be opened and that a filter does not leave out."""
    may_hold = Judge(condition, schema)
    return {
        place: error
        for place, error in exported.unreadable.items()
        if may_hold(pc.field("partition") == place.partition)
    }


class Judge:
    """Decides whether a filter may match a row of which something is known."""

    def __init__(self, condition: Any, schema: pa.Schema) -> None:
        self._condition = condition
        self._schema = schema
        self._format = ds.IpcFileFormat()
        self._nowhere = LocalFileSystem()

    def __call__(self, known: Any) -> bool:
        fragment = self._format.make_fragment(
            "none", filesystem=self._nowhere, partition_expression=known
        )
        dataset = ds.FileSystemDataset([fragment], self._schema, self._format, self._nowhere)
        return any(True for _ in dataset.get_fragments(self._condition))


def _cut(may_hold: Judge, place: TopicPartition, wanted: OffsetRange) -> OffsetRange | None:
    """Returns the part in which the filter may match, or `None`."""
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
    """Returns the time before which no record matches; `None` if records without a time may
    match.
    """
    column = pc.field("timestamp")
    kind = export_schema().field("timestamp").type

    def until(time_ms: int) -> bool:
        return may_hold(column <= pa.scalar(time_ms, pa.int64()).cast(kind))

    if until(0) or may_hold(column.is_null()):
        return None
    least_ms = _least(0, LAST_TIME_MS, until)
    return EPOCH + timedelta(milliseconds=least_ms) if least_ms < LAST_TIME_MS else None


def _least(first: int, last: int, holds: Callable[[int], bool]) -> int:
    """Returns the smallest number for which `holds`, given that it holds for all larger ones, up
    to `last`.
    """
    while first < last:
        middle = (first + last) // 2
        if holds(middle):
            last = middle
        else:
            first = middle + 1
    return first
