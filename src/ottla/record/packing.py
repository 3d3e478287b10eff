"""Encodes Arrow columns as the records of v2 batches, without a Python object per record.

`pack_records` is the inverse of `columns`. numpy computes the varints of all records column by
column, and Arrow joins them with keys, values and headers in one pass. `RecordBatchBuilder` adds
the header of a batch. numpy and pyarrow are imported when a function is called. Format page:
docs/format/record-batch.md. Kafka's counterpart: `MemoryRecordsBuilder`.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from ottla.base.values import dataclass
from ottla.record.builder import MAX_RECORD_OVERHEAD
from ottla.record.layout import HEADER_SIZE

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Integers: TypeAlias = "NDArray[np.int64]"

_VARINT_STEPS = (1 << 7, 1 << 14, 1 << 21, 1 << 28, 1 << 35, 1 << 42, 1 << 49, 1 << 56)
_NULL = 1
"""-1, a null's length, in zigzag."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordColumns:
    """Rows to pack.

    `key` and `value` are binary arrays; `headers` is an array of lists of structs with a string
    `key` and a binary `value`. `None` means all nulls, or no headers. `timestamp_ms` is a numpy
    array; with `None` the receiver of the batches sets the times.
    """

    key: Any
    value: Any
    headers: Any = None
    timestamp_ms: "Integers | None" = None

    def take(self, rows: Any) -> "RecordColumns":
        return RecordColumns(
            key=_taken(self.key, rows),
            value=_taken(self.value, rows),
            headers=_taken(self.headers, rows),
            timestamp_ms=None if self.timestamp_ms is None else self.timestamp_ms[rows],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedRecords:
    """The `count` encoded records of one batch, without its header.

    Timestamps are `None` if none were given: then all records have a timestamp delta of 0.
    """

    partition: int
    count: int
    payload: memoryview
    base_timestamp_ms: int | None = None
    max_timestamp_ms: int | None = None

    @property
    def size(self) -> int:
        """The size in bytes of the batch without compression."""
        return HEADER_SIZE + len(self.payload)


def pack_records(
    columns: RecordColumns, partitions: "NDArray[Any]", max_size: int
) -> list[PackedRecords]:
    """Packs rows into batches of at most `max_size` bytes, ordered by partition.

    `partitions` is a numpy array with the partition of each row. Rows of one partition keep their
    order. A record that is larger than `max_size` has its own batch. Raises `ValueError` for a
    header without a name, and for times whose distance has more than 64 bits.
    """
    import numpy as np

    changes = np.diff(partitions)
    if (changes < 0).any():
        rows = np.argsort(partitions, kind="stable")
        columns, partitions = columns.take(rows), partitions[rows]
        changes = np.diff(partitions)
    row_count = len(partitions)
    keys, values = _Field.of(columns.key, row_count), _Field.of(columns.value, row_count)
    tail, tail_sizes = _tail(columns.headers, row_count)
    body_sizes = keys.sizes + values.sizes + tail_sizes
    starts = _batch_starts(changes, body_sizes + MAX_RECORD_OVERHEAD, max_size - HEADER_SIZE)
    counts = np.diff(np.append(starts, row_count))
    offset_delta = np.arange(row_count) - np.repeat(starts, counts)
    times = columns.timestamp_ms
    if times is not None and row_count and int(times.max()) - int(times.min()) >= 1 << 63:
        raise ValueError(
            f"{times.min()} and {times.max()} are too far apart for times of one batch"
        )
    time_delta = None if times is None else times - np.repeat(times[starts], counts)
    packed = _joined(keys, values, (tail, body_sizes), offset_delta, time_delta)
    latest = None if times is None or not len(starts) else np.maximum.reduceat(times, starts)
    return [
        PackedRecords(
            partition=int(partitions[start]),
            count=int(count),
            payload=packed.between(int(start), int(start + count)),
            base_timestamp_ms=None if times is None else int(times[start]),
            max_timestamp_ms=None if latest is None else int(latest[number]),
        )
        for number, (start, count) in enumerate(zip(starts, counts, strict=True))
    ]


@dataclass(frozen=True, slots=True)
class _Field:
    """One field of each row, such as the keys; a null has no bytes."""

    data: Any
    sizes: Integers
    prefix: Integers
    """The length before the bytes, in zigzag."""

    @staticmethod
    def of(array: Any, row_count: int) -> "_Field":
        import numpy as np
        import pyarrow.compute as pc

        if array is None:
            nothing = np.zeros(row_count, np.int64)
            return _Field(None, nothing, nothing + _NULL)
        lengths = pc.binary_length(array)
        if not array.null_count:
            sizes = lengths.to_numpy().astype(np.int64)
            return _Field(array, sizes, sizes * 2)
        sizes = lengths.fill_null(-1).to_numpy().astype(np.int64)
        prefix = np.where(sizes < 0, _NULL, sizes * 2)
        return _Field(array.fill_null(b""), np.maximum(sizes, 0), prefix)


@dataclass(frozen=True, slots=True)
class _Strings:
    """The bytes of a binary array, and the bounds of its rows."""

    data: memoryview
    bounds: "NDArray[Any]"

    @staticmethod
    def of(array: Any) -> "_Strings":
        import numpy as np

        _, offsets, data = array.buffers()
        bounds = np.frombuffer(offsets, np.int32)[array.offset : array.offset + len(array) + 1]
        return _Strings(memoryview(data if data is not None else b""), bounds)

    def between(self, first: int, end: int) -> memoryview:
        return self.data[self.bounds[first] : self.bounds[end]]


def _joined(
    keys: _Field,
    values: _Field,
    rest: tuple[Any, Integers],
    offset_delta: Integers,
    time_delta: "Integers | None",
) -> _Strings:
    """Joins the parts of each record: size, attributes, two deltas, key, value, headers."""
    tail, sizes = rest
    fields = [_NO_BITS, _NO_BITS, _Varint.of(offset_delta * 2), _Varint.of(keys.prefix)]
    if time_delta is not None:
        fields[1] = _Varint.of((time_delta << 1) ^ (time_delta >> 63))
    value = _Varint.of(values.prefix)
    for one in (*fields, value):
        sizes = sizes + one.sizes
    fields.insert(0, _Varint.of(sizes * 2))
    if keys.data is None:  # no bytes between the two lengths
        start = _written([*fields, value], len(offset_delta))
        return _Strings.of(_join(start, values.data, tail))
    start, between = (_written(one, len(offset_delta)) for one in (fields, [value]))
    return _Strings.of(_join(start, keys.data, between, values.data, tail))


def _tail(headers: Any, row_count: int) -> tuple[Any, Integers]:
    """The encoded headers of each row, and their sizes."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    if headers is None:
        return b"\0", np.ones(row_count, np.int64)
    counts = pc.list_value_length(headers).fill_null(0).to_numpy().astype(np.int64)
    flat = headers.flatten()
    names, values = (flat.field(place).cast(pa.binary()) for place in (0, 1))
    if flat.null_count or names.null_count:
        raise ValueError("column headers: a header has no name")
    name, value = _Field.of(names, len(flat)), _Field.of(values, len(flat))
    each = _Strings.of(_join(_varints(name.prefix), name.data, _varints(value.prefix), value.data))
    bounds = each.bounds[np.append(0, np.cumsum(counts))].astype(np.int32)
    of_rows = pa.BinaryArray.from_buffers(
        pa.binary(), row_count, [None, pa.py_buffer(bounds), pa.py_buffer(each.data)]
    )
    return _join(_varints(counts * 2), of_rows), np.diff(bounds) + _varint_sizes(counts * 2)


def _batch_starts(changes: "NDArray[Any]", sizes: Integers, max_size: int) -> "NDArray[Any]":
    """The first row of each batch: at each new partition, and before a batch grows too large."""
    import numpy as np

    ends = np.cumsum(sizes)
    edges = [*(np.flatnonzero(changes) + 1), len(sizes)]
    starts = []
    start = 0
    for edge in edges:
        while start < edge:
            starts.append(start)
            filled = np.searchsorted(ends, ends[start] - sizes[start] + max_size, "right")
            start = min(max(int(filled), start + 1), int(edge))
    return np.array(starts, np.int64)


@dataclass(frozen=True, slots=True)
class _Varint:
    """A number for each row, or one for all rows, with the size of its varint in bytes."""

    values: "Integers | int"
    sizes: "Integers | int"

    @staticmethod
    def of(values: Integers) -> "_Varint":
        if not len(values):
            return _Varint(values, values)
        first = int(values[0])
        if first == int(values[-1]) and bool((values == first).all()):
            return _Varint(first, int(_varint_sizes(values[:1])[0]))
        return _Varint(values, _varint_sizes(values))

    def write(self, out: "NDArray[Any]", position: Integers) -> None:
        """Writes the varint of each row at its position, and moves the positions after it."""
        import numpy as np

        values, sizes = self.values, self.sizes
        if isinstance(sizes, int):
            for place in range(sizes):
                last = place + 1 == sizes
                if byte := (values >> (7 * place)) & 0x7F | (0 if last else 0x80):
                    out[position + place] = byte
        else:
            assert not isinstance(values, int)
            for place in range(int(sizes.max(initial=0))):
                rows = np.flatnonzero(sizes > place) if place else slice(None)
                more = (sizes[rows] > place + 1) << 7
                out[position[rows] + place] = ((values[rows] >> (7 * place)) & 0x7F) | more
        position += sizes


_NO_BITS = _Varint(0, 1)


def _varint_sizes(values: Integers) -> Integers:
    import numpy as np

    sizes = np.ones(len(values), np.int64)
    largest = values.max(initial=0)
    for step in _VARINT_STEPS:
        if largest >= step:
            sizes += values >= step
    return sizes


def _varints(values: Integers) -> Any:
    return _written([_Varint.of(values)], len(values))


def _written(fields: "Sequence[_Varint]", row_count: int) -> Any:
    """A binary array with the joined varints of all fields of each row."""
    import numpy as np
    import pyarrow as pa

    bounds = np.zeros(row_count + 1, np.int64)
    bounds[1:] = sum(one.sizes for one in fields)
    np.cumsum(bounds, out=bounds)
    out = np.zeros(bounds[-1], np.uint8)
    position = bounds[:-1].copy()
    for one in fields:
        one.write(out, position)
    return pa.BinaryArray.from_buffers(
        pa.binary(),
        row_count,
        [None, pa.py_buffer(bounds.astype(np.int32)), pa.py_buffer(out)],
    )


def _join(*parts: Any) -> Any:
    import pyarrow.compute as pc

    return pc.binary_join_element_wise(*(part for part in parts if part is not None), b"")


def _taken(array: Any, rows: Any) -> Any:
    import pyarrow as pa

    return None if array is None else array.take(pa.array(rows))
