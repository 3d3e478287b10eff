"""Converts Spark's rows to records with a topic and a partition.

If a row names a partition, that is used; otherwise a key decides, as in every Kafka client. Rows
without a key go to one partition for a while and then to the next, as with Kafka's sticky
partitioner.
"""

from collections.abc import Callable, Iterator
from dataclasses import field
from typing import TYPE_CHECKING, Any

from ottla.base.errors import UserError
from ottla.base.values import dataclass
from ottla.record.packing import PackedRecords, RecordColumns, pack_records
from ottla.record.partitioner import partitions_for_keys
from ottla.sources.conditions import NULL_TOPIC, ConditionError

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

STICKY_COUNT = 1000
"""Number of rows without a key that go to one partition before the next partition."""

PIECE_SIZE = 64 * 1024 * 1024
"""Approximate bytes of rows that are packed at once, far below the limit of an Arrow array."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedRecords:
    """Packed records of one topic. `row_count` and `size` (of keys and values) measure them."""

    topic: str
    packed: list[PackedRecords]
    row_count: int
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PackingRules:
    """`topic` is that of all rows, if given; sizes are of batches, in bytes."""

    topic: str | None
    batch_size: int
    max_record_size: int
    partition_count: Callable[[str], int]
    """Returns a topic's partition count; raises `UserError` if the topic does not exist."""
    first_turn: int = 0
    """The first partition for rows without a key; it should differ between tasks."""


@dataclass(slots=True)
class RowPacker:
    """Packs the rows of one task, batch after batch."""

    rules: PackingRules
    _keyless: dict[str, int] = field(default_factory=dict)

    def pack(self, batch: "pa.RecordBatch") -> Iterator[PlacedRecords]:
        """Packs rows; raises `UserError` for rows that cannot be written."""
        for piece in _pieces(batch):
            for topic, rows in self._by_topic(piece):
                yield self._packed(topic, rows)

    def _by_topic(self, batch: "pa.RecordBatch") -> Iterator[tuple[str, "pa.RecordBatch"]]:
        import pyarrow.compute as pc

        if self.rules.topic is not None:
            yield self.rules.topic, batch
            return
        topics = batch.column("topic")
        if topics.null_count:
            words = "a row's column topic is null; fill it, or give the option topic"
            raise ConditionError(words, NULL_TOPIC)
        for topic in pc.unique(topics).to_pylist():
            yield topic, batch.filter(pc.equal(topics, topic))

    def _packed(self, topic: str, rows: "pa.RecordBatch") -> PlacedRecords:
        columns = RecordColumns(
            key=_binary(rows, "key"), value=_binary(rows, "value"), headers=_column(rows, "headers")
        )
        partitions = self._partitions(topic, columns.key, rows)
        try:
            packed = pack_records(columns, partitions, self.rules.batch_size)
        except ValueError as error:
            raise UserError(f"{topic}: {error}; every header needs one") from error
        for one in packed:
            if one.size > self.rules.max_record_size:
                raise UserError(
                    f"{topic}-{one.partition}: a row makes a batch of {one.size} bytes, and "
                    f"kafka.max.request.size is {self.rules.max_record_size}; raise it, and "
                    f"max.message.bytes of the topic"
                )
        size = sum(_size(column) for column in (columns.key, columns.value))
        return PlacedRecords(topic=topic, packed=packed, row_count=rows.num_rows, size=size)

    def _partitions(self, topic: str, keys: Any, rows: "pa.RecordBatch") -> "NDArray[np.int64]":
        import numpy as np
        import pyarrow.compute as pc

        count = self.rules.partition_count(topic)
        if keys is None:
            partitions = np.zeros(rows.num_rows, np.int64)
            without_key = np.ones(rows.num_rows, np.bool_)
        else:
            partitions = partitions_for_keys(keys, count)
            without_key = keys.is_null().to_numpy(zero_copy_only=False)
        named = _column(rows, "partition")
        if named is not None:
            has_name = named.is_valid().to_numpy(zero_copy_only=False)
            numbers = pc.fill_null(named, 0).to_numpy().astype(np.int64)
            _check_named(topic, numbers, count)
            partitions = np.where(has_name, numbers, partitions)
            without_key = without_key & ~has_name
        keyless = int(np.count_nonzero(without_key))
        if keyless:
            partitions[without_key] = self._turns(topic, keyless) % count
        return partitions

    def _turns(self, topic: str, count: int) -> "NDArray[np.int64]":
        import numpy as np

        before = self._keyless.get(topic, 0)
        self._keyless[topic] = before + count
        return self.rules.first_turn + (before + np.arange(count)) // STICKY_COUNT


def measure(rows: "pa.RecordBatch") -> tuple[int, int]:
    """Returns the number of rows, and the bytes of their keys and values."""
    return rows.num_rows, sum(_size(_binary(rows, name)) for name in ("key", "value"))


def _check_named(topic: str, numbers: "NDArray[np.int64]", count: int) -> None:
    for number in (numbers.min(initial=0), numbers.max(initial=0)):
        if not 0 <= number < count:
            raise UserError(
                f"a row's column partition is {number}, but {topic} has partitions 0 to "
                f"{count - 1}; add partitions, or drop the column for keys to decide"
            )


def _pieces(batch: "pa.RecordBatch") -> Iterator["pa.RecordBatch"]:
    count = batch.num_rows
    step = count if batch.nbytes <= PIECE_SIZE else max(1, count * PIECE_SIZE // batch.nbytes)
    for start in range(0, count, max(1, step)):
        yield batch.slice(start, step)


def _column(rows: "pa.RecordBatch", name: str) -> Any:
    """Returns a column, `None` if it does not exist."""
    place = rows.schema.get_field_index(name)
    return None if place < 0 else rows.column(place)


def _binary(rows: "pa.RecordBatch", name: str) -> Any:
    import pyarrow as pa

    column = _column(rows, name)
    return None if column is None else column.cast(pa.binary())


def _size(column: Any) -> int:
    import pyarrow.compute as pc

    return 0 if column is None else pc.sum(pc.binary_length(column)).as_py() or 0
