"""A batch while records come into it, and what becomes of it.

Kafka's counterpart: `ProducerBatch`. setup.py has this module compiled.
"""

from collections.abc import Callable, Iterable, Sequence
from threading import Condition
from typing import Any

from ottla.base.errors import OttlaError
from ottla.base.partitions import TopicPartition
from ottla.client.producing.sent_record import SentRecord
from ottla.codec.compression import Compression
from ottla.record import list_packing
from ottla.record.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE
from ottla.record.builder import RecordBatchBuilder
from ottla.record.packing import RecordColumns, pack_records

Headers = Sequence[tuple[str, bytes | None]]

FEW_RECORDS = 50
"""Below it, record by record is faster than column by column."""


OnDelivery = Callable[[OttlaError | None, SentRecord | None], object]


class Stamp:
    """What a batch carries of its producer."""

    def __init__(
        self,
        producer_id: int = NO_PRODUCER_ID,
        epoch: int = NO_PRODUCER_EPOCH,
        sequence: int = NO_SEQUENCE,
        is_transactional: bool = False,
    ) -> None:
        self.producer_id = producer_id
        self.epoch = epoch
        self.sequence = sequence
        self.is_transactional = is_transactional


class RecordBatchInMaking:
    """The records of one partition that are sent as one; a list for each field.

    `lock` is the producer's condition: a caller waits with it until `is_done`.
    """

    def __init__(self, place: TopicPartition, begun_s: float, lock: Condition) -> None:
        self.place = place
        self.begun_s = begun_s
        self.lock = lock
        self.keys: list[bytes | None] = []
        self.values: list[bytes | None] = []
        self.times_ms: list[int] = []
        self.headers: dict[int, Headers] = {}
        """By record, of those that have some."""
        self.size = 0
        self.data: bytes | None = None
        self.base_offset = -1
        self.error: OttlaError | None = None
        self.is_done = False
        self.waiters: list[Callable[[], object]] = []
        self.callbacks: list[tuple[int, OnDelivery]] = []
        self.promises: list[tuple[int, Any]] = []
        """Futures of an event loop, by record, of those that are waited for."""

    @property
    def count(self) -> int:
        return len(self.values)

    def record(self, index: int) -> SentRecord:
        offset = self.base_offset + index if self.base_offset >= 0 else -1
        return SentRecord(self.place.topic, self.place.partition, offset, self.times_ms[index])

    def encode(self, stamp: Stamp, compression: Compression) -> None:
        """Once: what is sent again is the same bytes."""
        builder = RecordBatchBuilder(
            compression=compression,
            producer_id=stamp.producer_id,
            producer_epoch=stamp.epoch,
            base_sequence=stamp.sequence,
            is_transactional=stamp.is_transactional,
        )
        if list_packing.IS_COMPILED:
            builder.append_packed(
                list_packing.pack_lists(self.keys, self.values, self.times_ms, self.headers),
                self.count,
                base_timestamp_ms=self.times_ms[0],
                max_timestamp_ms=max(self.times_ms),
            )
            self.data = builder.build(last_offset=self.count - 1)
        elif self.headers or self.count < FEW_RECORDS or not _has_columns():
            for index in range(self.count):
                builder.append(
                    self.keys[index],
                    self.values[index],
                    self.times_ms[index],
                    self.headers.get(index, ()),
                )
            self.data = builder.build()
        else:
            self.data = self._built_of_columns(builder)

    def _built_of_columns(self, builder: RecordBatchBuilder) -> bytes:
        import numpy as np
        import pyarrow as pa

        columns = RecordColumns(
            key=_binary(pa, self.keys),
            value=_binary(pa, self.values),
            timestamp_ms=np.array(self.times_ms, np.int64),
        )
        packed = pack_records(columns, np.zeros(self.count, np.int64), 1 << 31)[0]
        builder.append_packed(
            packed.payload,
            packed.count,
            base_timestamp_ms=packed.base_timestamp_ms or 0,
            max_timestamp_ms=packed.max_timestamp_ms or 0,
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
