"""Reads of a log: regions of files, records, Arrow columns, and records as they arrive."""

import math
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, repeat
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.base.errors import CorruptionError, UserError
from ottla.base.extras import needed_for
from ottla.base.files import Buffer
from ottla.base.partitions import TopicPartition
from ottla.base.values import dataclass
from ottla.record.batch import Batch, InvalidBatchError
from ottla.record.columns import columns_of
from ottla.record.field_lists import field_lists
from ottla.record.record import Headers, Record, read_records
from ottla.runtime.loops import check_may_block
from ottla.storage import scan
from ottla.storage.reading.region_groups import region_groups
from ottla.storage.segment.aborted_ranges import AbortedRanges

if TYPE_CHECKING:
    import duckdb
    import pandas
    import polars
    import pyarrow as pa

    from ottla.embedded.readable import ReadableLog

READ_SIZE = 1024 * 1024
MOMENT_S = 0.5
"""How long a thread waits for records at most before it returns."""

PARTITION = "partition"
COLUMNS = (PARTITION, "offset", "timestamp_ms", "key", "value", "headers")


class TopicRecord(NamedTuple):
    """A record with its partition.

    >>> first = next(iter(log.scan("orders")))
    >>> first.partition, first.offset, first.key, first.value
    (0, 0, b'table 1', b'tea')
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers


_made: Callable[[tuple[Any, ...]], TopicRecord] = partial(tuple.__new__, TopicRecord)


@dataclass(frozen=True, slots=True)
class Region:
    """Batches of a file, of which the records from `begin` up to `end` are wanted."""

    data: Buffer
    checked: Sequence[Batch]
    aborted: AbortedRanges
    begin: int
    end: int
    damage: Callable[[Batch, str], CorruptionError]
    """The error to raise for a batch whose records cannot be read."""

    @property
    def is_cut(self) -> bool:
        """Whether the first of its batches begins before what is wanted."""
        return self.checked[0].base_offset < self.begin

    def batches(self) -> Iterator[Batch]:
        """Checked batches, without control batches and those of aborted transactions."""
        for batch in self.checked:
            if not batch.is_control and not self.aborted.covers(batch):
                yield batch

    def records(self) -> Iterator[Record]:
        """The wanted records of `batches`; raises `CorruptionError`."""
        begin, end = self.begin, self.end
        try:
            for lists in field_lists(self.batches()):
                for record in lists.records():
                    if begin <= record.offset < end:
                        yield record
                        begin = record.offset + 1
        except InvalidBatchError:
            # Returns the records before the fault too.
            yield from self.one_by_one(begin)

    def one_by_one(self, begin: int) -> Iterator[Record]:
        """As `records`, from an offset on, up to the very record that cannot be read."""
        for batch in self.batches():
            try:
                for record in read_records(batch):
                    if begin <= record.offset < self.end:
                        yield record
            except InvalidBatchError as error:
                raise self.damaged(batch, error) from error

    def damaged(self, batch: Batch, error: InvalidBatchError) -> CorruptionError:
        return self.damage(batch, f"after it, {scan.offsets_of(batch)}: {error}")


def sound_start(checked: Iterable[Batch]) -> tuple[list[Batch], CorruptionError | None]:
    """The batches before the first damaged one, and the error to raise after them."""
    batches: list[Batch] = []
    try:
        batches.extend(checked)
    except CorruptionError as error:
        return batches, error
    return batches, None


class Scan:
    """Records of a topic, partition by partition: iterate, or ask for columns.

    Each use reads again, up to the ends at the creation of the scan.

    >>> scan = log.scan("orders")
    >>> [record.value for record in scan]
    [b'tea', b'coffee', b'cake', b'milk']
    """

    def __init__(
        self, log: "ReadableLog", topic: str, spans: Mapping[int, tuple[int, int]]
    ) -> None:
        self._log = log
        self._topic = topic
        self.spans = spans

    def __iter__(self) -> Iterator[TopicRecord]:
        for partition in self.spans:
            for region in self._regions(partition):
                yield from records_of(region, TopicPartition(self._topic, partition))

    def batches(self, columns: Sequence[str] | None = None) -> "Iterator[pa.RecordBatch]":
        """Arrow record batches with the columns `COLUMNS`, or some of them, as they are read.

        What is not asked for is not built. Raises `UserError` for a column that does not exist.

        >>> [batch.num_rows for batch in log.scan("orders").batches()]
        [3, 1]
        >>> [batch.to_pydict() for batch in log.scan("orders").batches(["offset"])]
        [{'offset': [0, 1, 2]}, {'offset': [0]}]
        """
        return self._batches(_schema(columns))

    def _batches(self, schema: "pa.Schema") -> "Iterator[pa.RecordBatch]":
        import pyarrow as pa

        # The rows of a batch are counted by one of its columns.
        names = [one for one in schema.names if one != PARTITION] or ["offset"]
        for partition in self.spans:
            number = pa.scalar(partition, pa.int32())
            for group in region_groups(self._regions(partition)):
                for one in _columns_of(group, names):
                    there = dict(zip(names, one.columns, strict=True))
                    there[PARTITION] = pa.repeat(number, one.num_rows)
                    wanted = [there[name] for name in schema.names]
                    yield pa.RecordBatch.from_arrays(wanted, schema=schema)

    @property
    def schema(self) -> "pa.Schema":
        """The Arrow schema of `to_arrow()` and `batches()`.

        >>> log.scan("orders").schema.names
        ['partition', 'offset', 'timestamp_ms', 'key', 'value', 'headers']
        """
        return _schema(None)

    def to_arrow(self, columns: Sequence[str] | None = None) -> "pa.Table":
        """An Arrow table of all columns, or of some, as `batches()` has them.

        >>> log.scan("orders").to_arrow().num_rows
        4
        >>> log.scan("orders").to_arrow(columns=["partition", "offset"]).column_names
        ['partition', 'offset']
        """
        schema = _schema(columns)
        import pyarrow as pa

        return pa.Table.from_batches(self._batches(schema), schema)

    def to_pandas(self, columns: Sequence[str] | None = None) -> "pandas.DataFrame":
        """A pandas `DataFrame` of all columns, or of some.

        >>> log.scan("orders").to_pandas()["value"].tolist()
        [b'tea', b'coffee', b'cake', b'milk']
        """
        return self.to_arrow(columns).to_pandas()

    def to_polars(self, columns: Sequence[str] | None = None) -> "polars.DataFrame":
        """A polars `DataFrame` of all columns, or of some.

        >>> log.scan("orders").to_polars()["value"].to_list()
        [b'tea', b'coffee', b'cake', b'milk']
        """
        with needed_for("to_polars"):
            import polars

        frame = polars.from_arrow(self.to_arrow(columns))
        assert isinstance(frame, polars.DataFrame)
        return frame

    def to_duckdb(
        self,
        connection: "duckdb.DuckDBPyConnection | None" = None,
        columns: Sequence[str] | None = None,
    ) -> "duckdb.DuckDBPyRelation":
        """A relation of DuckDB of all columns, or of some, on a connection or on DuckDB's own.

        >>> log.scan("orders").to_duckdb().aggregate("count(*)").fetchall()
        [(4,)]
        """
        with needed_for("to_duckdb"):
            import duckdb

        return (connection or duckdb).from_arrow(self.to_arrow(columns))

    def _regions(self, partition: int) -> Iterator[Region]:
        place = TopicPartition(self._topic, partition)
        return self._log.regions(place, *self.spans[partition])


def records_of(region: Region, place: TopicPartition) -> Iterator[TopicRecord]:
    """The records of a region; raises `CorruptionError`."""
    begin, end = region.begin, region.end
    try:
        for lists in field_lists(region.batches()):
            rows = zip(
                repeat(place.topic),
                repeat(place.partition),
                lists.offsets,
                lists.timestamps_ms,
                lists.keys,
                lists.values,
                lists.headers,
                strict=False,
            )
            if lists.offsets and begin <= lists.offsets[0] and lists.offsets[-1] < end:
                yield from map(_made, rows)
            else:
                yield from (one for one in map(_made, rows) if begin <= one.offset < end)
            if lists.offsets:
                begin = max(begin, lists.offsets[-1] + 1)
    except InvalidBatchError:
        for one in region.one_by_one(begin):
            fields = one.offset, one.timestamp_ms, one.key, one.value, one.headers
            yield TopicRecord(place.topic, place.partition, *fields)


def _schema(columns: Sequence[str] | None) -> "pa.Schema":
    """Raises `UserError` for names that are no columns."""
    with needed_for("a scan by columns"):
        import pyarrow as pa

    from ottla.record.columns import schema

    if isinstance(columns, str):
        raise UserError(f'columns is a list of names: columns=["{columns}"]')
    names = COLUMNS if columns is None else tuple(columns)
    unknown = [one for one in names if one not in COLUMNS]
    if unknown or not names:
        what = f"there is no column {unknown[0]}" if unknown else "columns names none"
        raise UserError(f"{what}; the columns are {', '.join(COLUMNS)}")
    fields = {one.name: one for one in schema(COLUMNS[1:])}
    fields[PARTITION] = pa.field(PARTITION, pa.int32(), nullable=False)
    return pa.schema([fields[one] for one in names])


def _columns_of(group: Sequence[Region], names: Sequence[str]) -> "Iterator[pa.RecordBatch]":
    first = group[0]
    if any(one.is_cut for one in group[1:]):
        for one in group:
            yield from _columns_of([one], names)
        return
    try:
        batches = chain.from_iterable(one.batches() for one in group)
        found = list(columns_of(batches, names, first.begin, first.end))
    except InvalidBatchError:
        for one in group:
            yield from _columns_one_by_one(one, names)
    else:
        yield from found


def _columns_one_by_one(region: Region, names: Sequence[str]) -> "Iterator[pa.RecordBatch]":
    """Raises the damage of the batch that has it, after what is before it."""
    for batch in region.batches():
        try:
            yield from columns_of([batch], names, region.begin, region.end)
        except InvalidBatchError as error:
            raise region.damaged(batch, error) from error


class Tail:
    """New records of a topic: `for` waits in the thread, `async for` in the event loop. It ends
    when nothing has arrived for `timeout_s`, and never without. `positions` are the offsets of the
    next records.

    >>> tail = log.tail("orders", timeout_s=0)
    >>> _ = log.append("orders", b"tea", partition=0)
    >>> [(record.offset, record.value) for record in tail]
    [(3, b'tea')]
    """

    def __init__(
        self, log: "ReadableLog", topic: str, positions: Mapping[int, int], timeout_s: float | None
    ) -> None:
        self._log = log
        self._topic = topic
        self._timeout_s = timeout_s
        self.positions = dict(positions)

    def __iter__(self) -> Iterator[TopicRecord]:
        while True:
            yield from self._come()
            check_may_block("for record in tail", "async for record in tail")
            until_s = self._until_s()
            while not self._wait(until_s):
                if time.monotonic() >= until_s:
                    return

    async def __aiter__(self) -> AsyncIterator[TopicRecord]:
        import asyncio  # Imported here, since other reads of a log do not need it.

        while True:
            for record in self._come():
                yield record
            until_s = self._until_s()
            # A thread cannot be cancelled: each one waits for a moment only.
            while not await asyncio.to_thread(self._wait, until_s):
                if time.monotonic() >= until_s:
                    return

    def _come(self) -> Iterator[TopicRecord]:
        """All records that are there and have not been returned."""
        for partition, end in self._log.stable_ends(self._topic, self.positions).items():
            place = TopicPartition(self._topic, partition)
            position = self.positions[partition]
            for region in self._log.regions(place, position, end):
                for record in records_of(region, place):
                    self.positions[partition] = record.offset + 1
                    yield record
            self.positions[partition] = max(end, self.positions[partition])

    def _until_s(self) -> float:
        return math.inf if self._timeout_s is None else time.monotonic() + self._timeout_s

    def _wait(self, until_s: float) -> bool:
        """Whether something arrives in time, and soon."""
        left_s = min(until_s - time.monotonic(), MOMENT_S)
        return self._log.wait_for_records(self._topic, self.positions, max(0.0, left_s))
