"""Reads of an open log: regions of files, records, Arrow columns, and what is still to come.

The log's lock is held only until a slice of a file is found; it is read, checked and decoded after.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.base.errors import CorruptionError, UserError
from ottla.base.files import FileSlice
from ottla.base.partitions import TopicPartition
from ottla.base.timestamps import Timestamps
from ottla.broker.broker import Broker
from ottla.broker.fetching import FetchQuery, PartitionQuery
from ottla.broker.waiting import Waiting
from ottla.record.batch import Batch, InvalidBatchError, kept_runs
from ottla.record.columns import iter_columns
from ottla.record.field_lists import field_lists
from ottla.record.record import Headers
from ottla.storage.log.reader import Isolation
from ottla.storage.reading.checked_batches import checked_batches, checked_records
from ottla.storage.segment.aborted_ranges import AbortedRanges

if TYPE_CHECKING:
    import pyarrow as pa

    from ottla.embedded.log import Log

READ_SIZE = 1024 * 1024
COLUMNS = ("partition", "offset", "timestamp_ms", "key", "value", "headers")


class TopicRecord(NamedTuple):
    """A record with the partition that it lies in."""

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
    """Batches as they lie in a file, of which the records from `begin` up to `end` are wanted."""

    found: FileSlice
    data: bytes
    checked: Sequence[Batch]
    aborted: AbortedRanges
    begin: int
    end: int

    def batches(self) -> Iterator[Batch]:
        """Checked, without those of control records and of aborted transactions."""
        for batch in self.checked:
            if not batch.is_control and not self.aborted.covers(batch):
                yield batch


def regions(log: "Log", place: TopicPartition, offset: int, end: int) -> Iterator[Region]:
    """All of a partition from an offset up to another.

    Starts at the log's first offset when that one is no longer there, and continues at the one that
    is the first by then when retention passes it by. Raises `CorruptionError`, and `UserError` when
    the topic is deleted under way.
    """
    with log.looking():
        topic_id = log.find_topic(place.topic).topic_id
    while _has_unchecked_aborts(log, place):
        pass
    while offset < end:
        with log.looking():
            state = log.find_partition(*place).log
            if log.find_topic(place.topic).topic_id != topic_id:
                raise UserError(
                    f"topic {place.topic} was created again while it was read; read it again"
                )
            begin = max(offset, state.log_start_offset)
            if begin >= end:
                return
            data = state.reader.read(begin, READ_SIZE, Isolation.LAST_STABLE)
            found = data.records.duplicate() if data.records is not None else None
        whole = found.read() if found is not None else b""
        if found is None or not whole:
            return
        aborted = AbortedRanges(data.aborted or [])
        batches: list[Batch] = []
        damage: CorruptionError | None = None
        try:
            batches.extend(checked_batches(found, whole))
        except CorruptionError as error:
            damage = error  # What lies before it is sound.
        if batches:
            offset = batches[-1].next_offset
            yield Region(found, whole, batches, aborted, begin, end)
        if damage is not None:
            raise damage
        if not batches:
            return


def _has_unchecked_aborts(log: "Log", place: TopicPartition) -> bool:
    """Continues the search for aborts in a log that another broker has written."""
    with log.looking():
        state = log.find_partition(*place).log
        state.maintenance.check_aborts()
        return state.abort_check is not None


def stable_ends(log: "Log", topic: str, partitions: Iterable[int] | None = None) -> dict[int, int]:
    """By partition the offset up to which records are committed."""
    with log.looking():
        wanted = sorted(log.find_topic(topic).partitions) if partitions is None else partitions
        return {index: log.find_partition(topic, index).log.last_stable_offset for index in wanted}


def wait_for_records(log: "Log", topic: str, offsets: Mapping[int, int], seconds: float) -> bool:
    """Whether something was committed at or after offsets, or comes within so many seconds."""
    query = FetchQuery(
        [PartitionQuery(topic, index, offset, 1) for index, offset in offsets.items()],
        1,
        isolation=Isolation.LAST_STABLE,
    )

    def ask(broker: Broker, at: Timestamps) -> tuple[Broker, Any]:
        found = broker.fetch_or_wait(query, at.monotonic_ms + 1000 * seconds)
        if isinstance(found, Waiting):
            log.pending.enter(found)
        return broker, found

    broker, found = log.hold(ask)
    if isinstance(found, Waiting):
        log.wait_for(found, broker)
        found = found.result
    return bool(found is not None and found.answers(query))


class Scan:
    """Records of a topic, partition by partition: iterate, or ask for columns.

    Each use reads again, up to the ends that were found when the scan was made.
    """

    def __init__(self, log: "Log", topic: str, spans: Mapping[int, tuple[int, int]]) -> None:
        self._log = log
        self._topic = topic
        self.spans = spans

    def __iter__(self) -> Iterator[TopicRecord]:
        for partition in self.spans:
            for region in self._regions(partition):
                yield from records_of(region, TopicPartition(self._topic, partition))

    def batches(self) -> "Iterator[pa.RecordBatch]":
        """Arrow record batches with the columns `COLUMNS`, as they are read."""
        import pyarrow as pa

        schema = self.schema
        for partition in self.spans:
            number = pa.scalar(partition, pa.int32())
            for region in self._regions(partition):
                for one in _columns_of(region):
                    column = pa.repeat(number, one.num_rows)
                    yield pa.RecordBatch.from_arrays([column, *one.columns], schema=schema)

    @property
    def schema(self) -> "pa.Schema":
        import pyarrow as pa

        from ottla.record.columns import schema

        partition = pa.field("partition", pa.int32(), nullable=False)
        return pa.schema([partition, *schema(COLUMNS[1:])])

    def to_arrow(self) -> "pa.Table":
        import pyarrow as pa

        return pa.Table.from_batches(self.batches(), self.schema)

    def to_pandas(self) -> Any:
        """A pandas `DataFrame`."""
        return self.to_arrow().to_pandas()

    def to_polars(self) -> Any:
        """A polars `DataFrame`."""
        import polars

        return polars.from_arrow(self.to_arrow())

    def to_duckdb(self, connection: Any = None) -> Any:
        """A relation of DuckDB, on a connection or on DuckDB's own."""
        import duckdb

        return (connection or duckdb).from_arrow(self.to_arrow())

    def _regions(self, partition: int) -> Iterator[Region]:
        place = TopicPartition(self._topic, partition)
        return regions(self._log, place, *self.spans[partition])


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
    except InvalidBatchError as error:
        raise _located(region, error) from error


def _columns_of(region: Region) -> "Iterator[pa.RecordBatch]":
    whole = memoryview(region.data)
    size = sum(batch.size for batch in region.checked)
    try:
        for data in kept_runs(whole[:size], region.aborted.covers):
            yield from iter_columns(data, COLUMNS[1:], region.begin, region.end)
    except InvalidBatchError as error:
        raise _located(region, error) from error


def _located(region: Region, error: InvalidBatchError) -> CorruptionError:
    """Of all batches only a look at each says which one it is."""
    for batch in region.batches():
        for _ in checked_records(region.found, batch):
            pass
    return CorruptionError(region.found.file.path, region.found.position, str(error))


class Tail:
    """What comes into a topic: `for` waits in the thread, `async for` in the event loop.

    It ends when nothing has come for `timeout_s`, and never without. `positions` are the offsets
    of the records to come.
    """

    def __init__(
        self, log: "Log", topic: str, positions: Mapping[int, int], timeout_s: float | None
    ) -> None:
        self._log = log
        self._topic = topic
        self._timeout_s = timeout_s
        self.positions = dict(positions)

    def __iter__(self) -> Iterator[TopicRecord]:
        while True:
            yield from self._come()
            if not self._wait():
                return

    async def __aiter__(self) -> AsyncIterator[TopicRecord]:
        while True:
            for record in self._come():
                yield record
            if not await asyncio.to_thread(self._wait):
                return

    def _come(self) -> Iterator[TopicRecord]:
        """All that is there by now, and has not been handed out."""
        for partition, end in stable_ends(self._log, self._topic, self.positions).items():
            place = TopicPartition(self._topic, partition)
            position = self.positions[partition]
            for region in regions(self._log, place, position, end):
                for record in records_of(region, place):
                    self.positions[partition] = record.offset + 1
                    yield record
            self.positions[partition] = max(end, self.positions[partition])

    def _wait(self) -> bool:
        """Whether something has come in time."""
        until_s = None if self._timeout_s is None else time.monotonic() + self._timeout_s
        while True:
            left_s = 1.0 if until_s is None else until_s - time.monotonic()
            if wait_for_records(self._log, self._topic, self.positions, max(0.0, left_s)):
                return True
            if until_s is not None and time.monotonic() >= until_s:
                return False
