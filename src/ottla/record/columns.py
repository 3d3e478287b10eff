"""Decodes the batches of a region to Arrow columns, without a Python object per record.

`iter_columns` returns record batches of a size that suits query engines, `decode_columns` a single
one. Control batches are left out. v2 batches are decoded by `scan`; messages of formats v0 and v1
by `read_records`, some twenty times slower. numpy and pyarrow are imported when a function is
called. Kafka has no counterpart.
"""

import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cache
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

from ottla.base.files import Buffer
from ottla.base.values import dataclass
from ottla.record import walk
from ottla.record.batch import (
    Batch,
    RecordBatch,
    iter_batches,
)
from ottla.record.layout import HEADER_SIZE
from ottla.record.record import Record, read_records
from ottla.record.walk import IS_COMPILED

if TYPE_CHECKING:
    import pyarrow as pa

    from ottla.record.header_columns import BatchHeaders, PlainBatches
    from ottla.record.scan import Fields, Payloads, RecordScan

COLUMNS: Final = ("offset", "timestamp_ms", "timestamp_type", "key", "value", "headers")

NO_TIMESTAMP_TYPE: Final = -1
"""Column value of `timestamp_type` in message format v0, as in Kafka."""

MAX_OFFSET: Final = 2**63 - 1

MAX_ROWS: Final = 65_536
"""The most rows in a record batch of `iter_columns`, which suits query engines."""


SCAN_ROWS: Final = MAX_ROWS
SCAN_SIZE: Final = (4 if IS_COMPILED else 16) * 1024 * 1024
"""The approximate number of rows and bytes that are scanned at once.

They fit into a processor's cache; for numpy, they are enough for many batches in lock step.
"""

_FEW_BYTES: Final = 256 * 1024
_ARROW_FUNCTIONS: Final = "pyarrow.compute"


def schema(columns: Sequence[str] = COLUMNS) -> Any:
    """The Arrow schema of the columns, in the given order; `ValueError` for unknown names."""
    return _schema(tuple(columns))


@cache
def _schema(columns: tuple[str, ...]) -> Any:
    import pyarrow as pa

    header = pa.struct([pa.field("key", pa.string(), nullable=False), ("value", pa.binary())])
    fields = {
        "offset": pa.field("offset", pa.int64(), nullable=False),
        "timestamp_ms": pa.field("timestamp_ms", pa.int64(), nullable=False),
        "timestamp_type": pa.field("timestamp_type", pa.int32(), nullable=False),
        "key": pa.field("key", pa.binary()),
        "value": pa.field("value", pa.binary()),
        "headers": pa.field("headers", pa.list_(header), nullable=False),
    }
    unknown = [name for name in columns if name not in fields]
    if unknown:
        raise ValueError(f"no such column: {', '.join(unknown)}; there are {', '.join(COLUMNS)}")
    return pa.schema([fields[name] for name in columns])


def decode_columns(
    buffer: Buffer,
    columns: Sequence[str] = COLUMNS,
    start_offset: int = 0,
    end_offset: int = MAX_OFFSET,
) -> "pa.RecordBatch":
    """The records of a buffer of whole batches with `start_offset <= offset < end_offset`.

    `headers` is empty, not null, for a record without headers. CRCs are checked. Raises
    `InvalidBatchError`, and `ValueError` for more data than fits into one Arrow column (2 GiB).
    """
    selection = Selection(schema(columns), start_offset, end_offset)
    return selection.decode(list(selection.batches(buffer)))


def iter_columns(
    buffer: Buffer,
    columns: Sequence[str] = COLUMNS,
    start_offset: int = 0,
    end_offset: int = MAX_OFFSET,
    *,
    max_rows: int = MAX_ROWS,
) -> "Iterator[pa.RecordBatch]":
    """As `decode_columns`, in record batches of one to `max_rows` rows."""
    from ottla.record.header_columns import plain_batches

    selection = Selection(schema(columns), start_offset, end_offset)
    plain = plain_batches(buffer, only_headers=selection.is_of_offsets)
    if plain is None:
        yield from _pieces(selection, selection.batches(buffer), max_rows)
        return
    for some in plain.within(start_offset, end_offset).pieces(SCAN_ROWS, SCAN_SIZE):
        yield from _sliced(_of_plain(some, selection), max_rows)


def columns_of(
    batches: Iterable[Batch], columns: Sequence[str], start_offset: int, end_offset: int
) -> "Iterator[pa.RecordBatch]":
    """As `iter_columns`, for checked batches, which may be of several buffers."""
    selection = Selection(schema(columns), start_offset, end_offset)
    yield from _pieces(selection, selection.wanted(batches), MAX_ROWS)


def _pieces(
    selection: "Selection", batches: Iterable[Batch], max_rows: int
) -> "Iterator[pa.RecordBatch]":
    for group in _groups(batches):
        yield from _sliced(selection.decode(group), max_rows)


def _sliced(decoded: "pa.RecordBatch", max_rows: int) -> "Iterator[pa.RecordBatch]":
    for start in range(0, decoded.num_rows, max_rows):
        yield decoded.slice(start, max_rows)


def _groups(batches: Iterable[Batch]) -> Iterator[list[Batch]]:
    """Lists of batches to scan together, of at most SCAN_ROWS rows unless one batch has more."""
    group: list[Batch] = []
    row_count = size = 0
    for batch in batches:
        # The message count of an old wrapper is unknown before it is decompressed.
        count = batch.record_count if isinstance(batch, RecordBatch) else 1
        if group and (row_count + count > SCAN_ROWS or size >= SCAN_SIZE):
            yield group
            group = []
            row_count = size = 0
        group.append(batch)
        row_count += count
        size += batch.size
    if group:
        yield group


@dataclass(frozen=True, slots=True)
class Selection:
    """The requested columns and offsets."""

    schema: Any
    start_offset: int
    end_offset: int

    @property
    def is_of_offsets(self) -> bool:
        return bool(self.schema.names == ["offset"])

    def batches(self, buffer: Buffer) -> Iterator[Batch]:
        """The data batches in a buffer that may overlap with the range, checked."""
        for batch in self.wanted(iter_batches(buffer)):
            batch.check()
            yield batch

    def wanted(self, batches: Iterable[Batch]) -> Iterator[Batch]:
        """The data batches that may overlap with the range, unchecked."""
        for batch in batches:
            if batch.is_control or batch.last_offset < self.start_offset:
                continue
            if isinstance(batch, RecordBatch):
                if batch.base_offset >= self.end_offset:
                    return
                if batch.record_count == 0:  # kept by compaction for the producer's state
                    continue
            yield batch

    def decode(self, batches: Sequence[Batch]) -> "pa.RecordBatch":
        import pyarrow as pa

        pieces = []
        for is_v2, run in groupby(batches, lambda one: isinstance(one, RecordBatch)):
            if is_v2:
                pieces.append(_scanned([one for one in run if isinstance(one, RecordBatch)], self))
            else:
                pieces.append(_read_one_by_one(run, self))
        if not pieces:
            return pa.RecordBatch.from_pylist([], schema=self.schema)
        if len(pieces) == 1:
            return pieces[0]
        columns = [pa.concat_arrays(several) for several in zip(*pieces, strict=True)]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


def _read_one_by_one(batches: Iterable[Batch], selection: Selection) -> "pa.RecordBatch":
    import pyarrow as pa

    records = [
        record
        for batch in batches
        for record in read_records(batch)
        if selection.start_offset <= record.offset < selection.end_offset
    ]
    columns = [
        pa.array([_value(record, field.name) for record in records], field.type)
        for field in selection.schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=selection.schema)


def _value(record: Record, column: str) -> object:
    match column:
        case "timestamp_type":
            kind = record.timestamp_type
            return NO_TIMESTAMP_TYPE if kind is None else kind.value
        case "headers":
            return [{"key": name, "value": value} for name, value in record.headers]
        case _:
            return getattr(record, column)


def numbers(values: Any, kind: Any = None) -> Any:
    """A numpy array as an Arrow array, without a copy.

    Not by `pyarrow.array`, which imports `numpy.ma` to check for masked values: that takes longer
    than decoding a few records.
    """
    import numpy as np
    import pyarrow as pa

    values = np.ascontiguousarray(values)
    kind = pa.from_numpy_dtype(values.dtype) if kind is None else kind
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(values)])


def _scanned(batches: Sequence[RecordBatch], selection: Selection) -> "pa.RecordBatch":
    from ottla.record.header_columns import BatchHeaders
    from ottla.record.scan import plain_payloads

    headers = BatchHeaders.of(batches)
    if _are_offsets(headers, selection):
        return _offsets(headers, selection)
    return _columns(*plain_payloads(batches), headers, selection)


def _of_plain(batches: "PlainBatches", selection: Selection) -> "pa.RecordBatch":
    from ottla.record.scan import Payloads

    headers = batches.headers
    if _are_offsets(headers, selection):
        return _offsets(headers, selection)
    first, until = int(batches.start[0]), int(batches.end[-1])
    payloads = Payloads(
        start=batches.start - first + HEADER_SIZE,
        end=batches.end - first,
        record_count=headers.record_count,
    )
    return _columns(batches.buffer[first:until], payloads, headers, selection)


def _are_offsets(headers: "BatchHeaders", selection: Selection) -> bool:
    return selection.is_of_offsets and headers.are_dense


def _offsets(headers: "BatchHeaders", selection: Selection) -> "pa.RecordBatch":
    import pyarrow as pa

    offsets = headers.dense_offsets()
    if not headers.are_within(selection.start_offset, selection.end_offset):
        offsets = offsets[(offsets >= selection.start_offset) & (offsets < selection.end_offset)]
    return pa.RecordBatch.from_arrays([numbers(offsets)], schema=selection.schema)


def _columns(
    buffer: Buffer, payloads: "Payloads", headers: "BatchHeaders", selection: Selection
) -> "pa.RecordBatch":
    import numpy as np
    import pyarrow as pa

    from ottla.record.scan import RecordScan

    is_cut = not headers.are_within(selection.start_offset, selection.end_offset)
    names = set(selection.schema.names)
    scan = RecordScan.begin(buffer, payloads, _wanted(names | {"offset"} if is_cut else names))
    found = _places(headers, scan, selection, is_cut)
    source = pa.py_buffer(buffer)
    # Fields are read in order; those after the last requested one are not read.
    if names & {"key", "value", "headers"}:
        keys = scan.fields()
        if "key" in names:
            found["key"] = _binary(source, keys)
    if names & {"value", "headers"}:
        values = scan.fields()
        if "value" in names:
            found["value"] = _binary(source, values)
    if "headers" in names:
        found["headers"] = _headers(source, scan, selection.schema.field("headers").type)
    columns = [
        numbers(one) if isinstance(one, np.ndarray) else one
        for one in (found[name] for name in selection.schema.names)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=selection.schema)


def _wanted(names: Collection[str]) -> int:
    """What to find in records for these columns, as bits of `walk`."""
    columns = {
        "offset": (walk.OFFSET_DELTA,),
        "timestamp_ms": (walk.TIMESTAMP_DELTA,),
        "timestamp_type": (walk.OFFSET_DELTA,),
        "key": (walk.KEY_START, walk.KEY_END),
        "value": (walk.VALUE_START, walk.VALUE_END),
        "headers": (walk.VALUE_START, walk.VALUE_END, walk.END),
    }
    return sum({1 << one for name in names for one in columns.get(name, ())})


def _places(
    headers: "BatchHeaders", scan: "RecordScan", selection: Selection, is_cut: bool
) -> dict[str, Any]:
    """Offset, timestamp and timestamp type of each record as far as selected, and the offset if the
    range cuts a batch; drops the rows outside the range.
    """
    import numpy as np

    names, found = selection.schema.names, dict[str, Any]()
    timestamp_delta, offset_delta = scan.deltas()
    if "timestamp_type" in names:
        found["timestamp_type"] = headers.of_each_record(headers.has_append_time.astype(np.int32))
    if "timestamp_ms" in names:
        timestamp_ms = timestamp_delta + headers.of_each_record(headers.base_timestamp_ms)
        if headers.has_append_time.any():
            is_append_time = headers.of_each_record(headers.has_append_time)
            append_time_ms = headers.of_each_record(headers.max_timestamp_ms)
            timestamp_ms = np.where(is_append_time, append_time_ms, timestamp_ms)
        found["timestamp_ms"] = timestamp_ms
    if not is_cut and "offset" not in names:
        return found
    offset = offset_delta + headers.of_each_record(headers.base_offset)
    found["offset"] = offset
    rows = (offset >= selection.start_offset) & (offset < selection.end_offset)
    if rows.all():
        return found
    scan.keep(rows)
    return {name: column[rows] for name, column in found.items()}


def _binary(source: Any, fields: "Fields") -> Any:
    """The fields as an Arrow array; Arrow copies their bytes."""
    # An array over `source` has the fields as its even elements, and the bytes between them as its
    # odd ones. The result takes the even elements, masked for null fields.
    import numpy as np
    import pyarrow as pa

    count, has_null = len(fields.start), fields.is_null.any()
    if not count or (has_null and fields.is_null.all()):
        return pa.nulls(count, pa.binary())
    if _ARROW_FUNCTIONS not in sys.modules:
        sizes = np.where(fields.is_null, 0, fields.end - fields.start)
        if sizes.sum() <= _FEW_BYTES:
            return _gathered(source, fields, sizes)
    bounds = np.empty(2 * count, dtype=np.int32)
    bounds[0::2] = fields.start
    bounds[1::2] = fields.end
    elements = [None, pa.py_buffer(bounds), source]
    alternating = pa.Array.from_buffers(pa.binary(), 2 * count - 1, elements)
    mask = fields.is_null if has_null else None
    return alternating.take(pa.array(np.arange(0, 2 * count, 2, dtype=np.int32), mask=mask))


def _gathered(source: Any, fields: "Fields", sizes: Any) -> Any:
    """As `_binary`, for so few bytes that importing Arrow's functions would take longer."""
    import numpy as np
    import pyarrow as pa

    offsets = np.zeros(len(sizes) + 1, dtype=np.int32)
    np.cumsum(sizes, out=offsets[1:])
    places = np.arange(offsets[-1]) + np.repeat(fields.start - offsets[:-1], sizes)
    content = np.frombuffer(source, dtype=np.uint8)[places]
    is_there = np.packbits(~fields.is_null, bitorder="little") if fields.is_null.any() else None
    buffers = [one if one is None else pa.py_buffer(one) for one in (is_there, offsets, content)]
    return pa.Array.from_buffers(pa.binary(), len(sizes), buffers)


def _headers(source: Any, scan: "RecordScan", column_type: Any) -> Any:
    import numpy as np
    import pyarrow as pa

    counts, names, values = scan.headers()
    offsets = np.zeros(len(counts) + 1, dtype=np.int32)
    if not len(names.start):
        none = pa.array([], column_type.value_type)
        return pa.ListArray.from_arrays(numbers(offsets), none, type=column_type)
    keys = _binary(source, names)
    try:
        keys = keys.cast(pa.string())
    except pa.ArrowInvalid:
        # Some names are not UTF-8: bad bytes are replaced, as in `read_records` and Java.
        keys = pa.array([name.decode(errors="replace") for name in keys.to_pylist()], pa.string())
    headers = pa.StructArray.from_arrays(
        [keys, _binary(source, values)], fields=list(column_type.value_type)
    )
    np.cumsum(counts, out=offsets[1:])
    return pa.ListArray.from_arrays(numbers(offsets), headers, type=column_type)
