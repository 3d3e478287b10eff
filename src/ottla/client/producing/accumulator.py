"""Records that wait to be sent, by partition, in batches by size and time. No thread, no clock.

Kafka's counterparts: `RecordAccumulator`, `ProducerBatch`.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ottla.base.errors import OttlaError
from ottla.base.partitions import TopicPartition
from ottla.codec.compression import Compression
from ottla.record.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE
from ottla.record.builder import MAX_RECORD_OVERHEAD, RecordBatchBuilder
from ottla.record.packing import RecordColumns, pack_records

Headers = Sequence[tuple[str, bytes | None]]
Row = tuple[bytes | None, bytes | None, int, Headers]
OnDelivery = Callable[[OttlaError | None, "SentRecord | None"], None]

FEW_ROWS = 50
"""Below it, record by record is faster than column by column."""


class SentRecord(NamedTuple):
    """Where a record lies; `offset` is -1 with acks=0, whose answer nobody knows.

    >>> producer.send("orders", b"tea", partition=1).result().offset
    1
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Stamp:
    """What a batch carries of its producer."""

    producer_id: int = NO_PRODUCER_ID
    epoch: int = NO_PRODUCER_EPOCH
    sequence: int = NO_SEQUENCE
    is_transactional: bool = False


class RecordBatchInMaking:
    """The records of one partition that are sent as one, and what becomes of them."""

    __slots__ = (
        "base_offset",
        "begun_s",
        "callbacks",
        "data",
        "error",
        "is_done",
        "place",
        "rows",
        "size",
        "stamp",
        "waiters",
    )

    def __init__(self, place: TopicPartition, begun_s: float) -> None:
        self.place = place
        self.begun_s = begun_s
        self.rows: list[Row] = []
        self.size = 0
        self.stamp: Stamp | None = None
        self.data: bytes | None = None
        self.base_offset = -1
        self.error: OttlaError | None = None
        self.is_done = False
        self.waiters: list[Callable[[], object]] = []
        self.callbacks: list[tuple[int, OnDelivery]] = []

    def record(self, index: int) -> SentRecord:
        offset = self.base_offset + index if self.base_offset >= 0 else -1
        return SentRecord(*self.place, offset, self.rows[index][2])

    def encode(self, stamp: Stamp, compression: Compression) -> None:
        """Once: what is sent again is the same bytes."""
        self.stamp = stamp
        builder = RecordBatchBuilder(
            compression=compression,
            producer_id=stamp.producer_id,
            producer_epoch=stamp.epoch,
            base_sequence=stamp.sequence,
            is_transactional=stamp.is_transactional,
        )
        self.data = encoded(builder, self.rows)


class Accumulator:
    """All of one producer. The caller holds a lock."""

    def __init__(self, *, batch_size: int, linger_s: float, memory: int) -> None:
        self._batch_size = batch_size
        self._linger_s = linger_s
        self._memory = memory
        self._batches: dict[TopicPartition, deque[RecordBatchInMaking]] = {}
        self._flush_count = 0
        self.used = 0
        self.record_count = 0

    def has_room(self, size: int) -> bool:
        """A record larger than all the memory goes alone."""
        return not self.used or self.used + size <= self._memory

    def add(
        self, place: TopicPartition, row: Row, size: int, now_s: Callable[[], float]
    ) -> tuple[RecordBatchInMaking, bool]:
        """The batch that a record has become the last of, and whether it is a new one."""
        queue = self._batches.get(place)
        if queue is None:
            queue = self._batches[place] = deque()
        is_new = not queue or queue[-1].size + size > self._batch_size
        if is_new:
            queue.append(RecordBatchInMaking(place, now_s()))
        batch = queue[-1]
        batch.rows.append(row)
        batch.size += size
        self.used += size
        self.record_count += 1
        return batch, is_new

    def take_ready(
        self, now_s: float, most: int, *, all_of_it: bool
    ) -> list[list[RecordBatchInMaking]]:
        """Rounds of batches to be sent, one of each partition in a round, in their order."""
        rounds: list[list[RecordBatchInMaking]] = []
        for queue in self._batches.values():
            for number in range(most):
                if not queue or not (all_of_it or self._is_ready(queue, now_s)):
                    break
                if number == len(rounds):
                    rounds.append([])
                rounds[number].append(queue.popleft())
        return rounds

    def next_ready_s(self) -> float | None:
        """When `take_ready` has something; `None` while nothing waits."""
        times = [
            0.0 if len(queue) > 1 or queue[0].size >= self._batch_size
            else queue[0].begun_s + self._linger_s
            for queue in self._batches.values()
            if queue
        ]  # fmt: skip
        return min(times, default=None)

    def take_all(self) -> list[RecordBatchInMaking]:
        """Of a producer that gives up what it has."""
        taken = [one for queue in self._batches.values() for one in queue]
        self._batches.clear()
        return taken

    def done(self, batch: RecordBatchInMaking) -> None:
        """Its records have an answer: there is room again."""
        self.used -= batch.size
        self.record_count -= len(batch.rows)

    def _is_ready(self, queue: deque[RecordBatchInMaking], now_s: float) -> bool:
        first = queue[0]
        return (
            len(queue) > 1
            or first.size >= self._batch_size
            or now_s >= first.begun_s + self._linger_s
        )


def size_of(row: Row) -> int:
    """An upper bound of what a record takes, before compression."""
    key, value, _, headers = row
    size = MAX_RECORD_OVERHEAD + (len(key) if key else 0) + (len(value) if value else 0)
    for name, content in headers:
        size += 10 + len(name) + (len(content) if content else 0)
    return size


def encoded(builder: RecordBatchBuilder, rows: Sequence[Row]) -> bytes:
    """A batch of records: column by column where there are many, and pyarrow is installed."""
    if len(rows) < FEW_ROWS or any(row[3] for row in rows) or not _has_columns():
        for key, value, timestamp_ms, headers in rows:
            builder.append(key, value, timestamp_ms, headers)
        return builder.build()
    import numpy as np
    import pyarrow as pa

    keys, values, times, _ = zip(*rows, strict=True)
    columns = RecordColumns(
        key=_binary(pa, keys),
        value=_binary(pa, values),
        timestamp_ms=np.array(times, np.int64),
    )
    packed = pack_records(columns, np.zeros(len(rows), np.int64), 1 << 31)[0]
    assert packed.base_timestamp_ms is not None
    assert packed.max_timestamp_ms is not None
    builder.append_packed(
        packed.payload,
        packed.count,
        base_timestamp_ms=packed.base_timestamp_ms,
        max_timestamp_ms=packed.max_timestamp_ms,
    )
    return builder.build(last_offset=packed.count - 1)


def _binary(pa: Any, items: Iterable[bytes | None]) -> Any:
    array = pa.array(items, pa.binary())
    return None if array.null_count == len(array) else array


def _has_columns() -> bool:
    try:
        import numpy
        import pyarrow  # noqa: F401
    except ImportError:
        return False
    return bool(numpy)
