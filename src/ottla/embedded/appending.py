"""Appends many records to an open log at once: lists, Arrow tables, frames of pandas or polars.

Rows are packed without the log's lock, which is then taken for one batch at a time, so that other
threads can interleave. Lists for one partition are packed in a compiled loop. Tables, lists with
keys for several partitions, and all lists without a compiler are packed column by column; without
numpy and pyarrow one by one.
"""

import random
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, count, islice
from operator import add
from typing import TYPE_CHECKING, Any

from ottla.base.arguments import check_partition, check_record, no_such_partition
from ottla.base.errors import UserError
from ottla.base.extras import needed_for
from ottla.base.files import Buffer
from ottla.base.partitions import OffsetRange
from ottla.codec.compression import CODECS, Compression
from ottla.record import list_packing
from ottla.record.batch import BuiltBatch
from ottla.record.builder import MAX_RECORD_OVERHEAD, RecordBatchBuilder
from ottla.record.layout import HEADER_SIZE
from ottla.record.packing import PackedRecords, RecordColumns, pack_records
from ottla.record.partitioner import partition_for_key, partitions_for_keys

if TYPE_CHECKING:
    from ottla.embedded.log import Log

MAX_BATCH_SIZE = 1 << 20
MAX_ROWS = 65_536
"""Maximum rows that are packed at once."""

BATCHES_AT_ONCE = 4
"""Batches that are packed at once, so that intermediate data stays in the processor's cache: new
memory costs the process more than all copies together.
"""

PLAIN = frozenset({bytes, type(None)})
"""The Arrow types of keys and values."""

OF_BYTES = "bytes or text; turn others into text first"
COLUMNS = {
    "key": OF_BYTES,
    "value": OF_BYTES,
    "headers": 'a row is a list such as [{"key": "waiter", "value": b"Ana"}]',
    "timestamp": "times, or whole milliseconds",
    "partition": "whole numbers",
}
SERIES = {"pandas": 'series.to_frame("value")', "polars": 'series.alias("value").to_frame()'}
Row = tuple[bytes | None, bytes | None, int, Sequence[tuple[str, bytes | None]]]


class ManyAppends:
    """One call of `Log.append_many`. `written` are the offsets by partition."""

    def __init__(
        self, log: "Log", topic: str, partition: int | None, compression: Compression | str
    ) -> None:
        self._log = log
        self._topic = topic
        self._partition = None if partition is None else check_partition(partition)
        self._compression = _codec(compression)
        self._now_ms = log.environment.clock.now_ms()
        with log.looking():
            found = log.find_topic(topic)
            self._count = found.partition_count
            self._max_size = min(MAX_BATCH_SIZE, found.config.max_message_bytes)
        self._next_keyless = random.randrange(self._count)
        self._kept: bytearray | None = None
        self.written: dict[int, OffsetRange] = {}

    def append(self, records: Any) -> None:
        """A table, a frame, or an iterable of values, of keys and values, or of records."""
        if isinstance(records, str | bytes):
            raise UserError("append_many takes several records; for one, use append")
        table = _table(records)
        if table is not None:
            step = self._rows_at_once(table.nbytes, table.num_rows)
            for chunk in table.to_batches():
                for start in range(0, chunk.num_rows, step):
                    self._append_columns(chunk.slice(start, step))
            return
        try:
            given = iter(records)
        except TypeError:
            kind = type(records).__name__
            raise UserError(
                f"append_many takes a table, a frame or an iterable of records, not {kind}"
            ) from None
        first = 0
        while part := list(islice(given, MAX_ROWS)):
            if not self._append_lists(part):
                rows = [self._row(one, first + index) for index, one in enumerate(part)]
                self._append_one_by_one(rows)
            first += len(part)

    def _append_lists(self, part: list[Any]) -> bool:
        """Packs values, or pairs of keys and values, in a compiled loop, or as columns; returns
        `False` for anything else.
        """
        kinds = set(map(type, part))
        keys: list[Any] | None = None
        values = part
        if kinds == {tuple} and set(map(len, part)) == {2}:
            keys, values = map(list, zip(*part, strict=True))
            kinds = set(map(type, keys)) | set(map(type, values))
        if not kinds <= PLAIN:
            return False
        is_one_partition = keys is None or self._partition is not None or self._count == 1
        if list_packing.IS_COMPILED and is_one_partition:
            self._append_compiled(keys, values)
            return True
        return self._append_as_columns(keys, values)

    def _append_compiled(self, keys: list[Any] | None, values: list[Any]) -> None:
        """Packs rows of one partition, a batch at a time."""
        partition = self._keyless_partition()
        room = self._max_size - HEADER_SIZE
        ends = _ends(keys, values)
        start = filled = 0
        while start < len(values):
            end = max(start + 1, bisect_right(ends, filled + room, start))
            rows = end - start
            in_batch = [None] * rows if keys is None else keys[start:end]
            times_ms = [self._now_ms] * rows
            payload = list_packing.pack_lists(in_batch, values[start:end], times_ms, {})
            self._append_payload(partition, payload, rows, self._now_ms, self._now_ms)
            start, filled = end, ends[end - 1]

    def _append_as_columns(self, keys: list[Any] | None, values: list[Any]) -> bool:
        if not _has_columns():
            return False
        import pyarrow as pa

        size = sum(map(len, filter(None, values))) + sum(map(len, filter(None, keys or ())))
        step = self._rows_at_once(size, len(values))
        for start in range(0, len(values), step):
            value = pa.array(values[start : start + step], pa.binary())
            key = None if keys is None else pa.array(keys[start : start + step], pa.binary())
            self._append_packed(key, value, None, None, None)
        return True

    def _rows_at_once(self, size: int, row_count: int) -> int:
        """The number of rows of the average size that fill a few batches."""
        each = size // max(1, row_count) + MAX_RECORD_OVERHEAD
        in_batch = (self._max_size - HEADER_SIZE) // each
        return max(1, min(MAX_ROWS, BATCHES_AT_ONCE * in_batch))

    def _row(self, one: Any, index: int) -> Row:
        row: Row
        if isinstance(one, tuple) and len(one) == 2:
            row = one[0], one[1], self._now_ms, ()
        elif hasattr(one, "timestamp_ms") and hasattr(one, "value"):
            row = one.key, one.value, one.timestamp_ms, one.headers
        else:
            row = None, one, self._now_ms, ()
        for content in row[:2]:
            if content is not None and not isinstance(content, bytes):
                raise UserError(
                    f"record {index}: a record must be bytes, a tuple of key and value, or have "
                    "key, value, timestamp_ms and headers; keys and values must be bytes or None, "
                    f"not {type(content).__name__}"
                )
        try:
            check_record(*row)
        except UserError as error:
            raise UserError(f"record {index}: {error}") from error
        return row

    def _append_one_by_one(self, rows: Iterable[Row]) -> None:
        builders: dict[int, RecordBatchBuilder] = {}
        for key, value, timestamp_ms, headers in rows:
            partition = self._partition
            if partition is None and key is not None:
                partition = partition_for_key(key, self._count)
            elif partition is None:
                partition = self._next_keyless
            size = MAX_RECORD_OVERHEAD + len(key or b"") + len(value or b"")
            size += sum(10 + len(name) + len(content or b"") for name, content in headers)
            builder = builders.get(partition)
            if builder is None or builder.size_estimate + size > self._max_size:
                if builder is not None:
                    self._write(partition, builder.build_writable(), builder.record_count)
                builder = builders[partition] = RecordBatchBuilder(compression=self._compression)
            builder.append(key, value, timestamp_ms, headers)
        for partition, builder in builders.items():
            self._write(partition, builder.build_writable(), builder.record_count)

    def _append_columns(self, batch: Any) -> None:
        import numpy as np
        import pyarrow as pa
        import pyarrow.compute as pc

        if "timestamp" not in batch.schema.names:  # As `scan` names it.
            names = {"timestamp_ms": "timestamp"}
            batch = batch.rename_columns([names.get(one, one) for one in batch.schema.names])
        unknown = set(batch.schema.names) - set(COLUMNS)
        if unknown or "value" not in batch.schema.names:
            raise UserError(
                f"columns are {', '.join(COLUMNS)}, of which value must be there; "
                f"not {', '.join(sorted(unknown)) or 'a table without value'}"
            )

        def column(name: str, kind: Any) -> Any:
            if name not in batch.schema.names:
                return None
            # Frames have timestamps in micro- or nanoseconds, records in milliseconds.
            options = pc.CastOptions(kind, allow_time_truncate=True)
            found = batch.column(name)
            try:
                if pa.types.is_dictionary(found.type):
                    # Arrow has no cast for all of them, as for polars' categories.
                    return found.dictionary.cast(options=options).take(found.indices)
                return found.cast(options=options)
            except pa.ArrowException as error:
                raise UserError(f"column {name}: {COLUMNS[name]}; {error}") from error

        header = pa.struct([("key", pa.string()), ("value", pa.binary())])
        times = column("timestamp", pa.timestamp("ms"))
        milliseconds = (
            None
            if times is None
            else np.asarray(times.cast(pa.int64()).fill_null(self._now_ms), np.int64)
        )
        key, partitions = column("key", pa.binary()), column("partition", pa.int64())
        if partitions is not None and partitions.null_count:
            chosen = pa.array(self._partitions_of(key, batch.num_rows), pa.int64())
            partitions = pc.coalesce(partitions, chosen)
        self._append_packed(
            key,
            column("value", pa.binary()),
            column("headers", pa.list_(header)),
            milliseconds,
            None if partitions is None else np.asarray(partitions, np.int64),
        )

    def _append_packed(
        self, key: Any, value: Any, headers: Any, times: Any, partitions: Any
    ) -> None:
        if partitions is None:
            partitions = self._partitions_of(key, len(value))
        elif len(partitions) and not 0 <= partitions.min() <= partitions.max() < self._count:
            wrong = partitions.min() if partitions.min() < 0 else partitions.max()
            raise no_such_partition(self._topic, wrong, self._count)
        if key is not None and key.null_count == len(key):
            key = None
        columns = RecordColumns(key=key, value=value, headers=headers, timestamp_ms=times)
        for packed in _packed(columns, partitions, self._max_size):
            base_ms, max_ms = packed.base_timestamp_ms, packed.max_timestamp_ms
            self._append_payload(
                packed.partition,
                packed.payload,
                packed.count,
                self._now_ms if base_ms is None else base_ms,
                self._now_ms if max_ms is None else max_ms,
            )

    def _append_payload(
        self, partition: int, payload: Buffer, count: int, base_ms: int, max_ms: int
    ) -> None:
        builder = RecordBatchBuilder(compression=self._compression)
        builder.append_packed(payload, count, base_timestamp_ms=base_ms, max_timestamp_ms=max_ms)
        data = builder.build_writable(last_offset=count - 1, memory=self._memory())
        self._write(partition, data, count)

    def _keyless_partition(self) -> int:
        """The partition given, or the next one for rows without keys."""
        if self._partition is not None:
            return self._partition
        self._next_keyless = (self._next_keyless + 1) % self._count
        return self._next_keyless

    def _partitions_of(self, key: Any, row_count: int) -> Any:
        import numpy as np

        if self._partition is not None or self._count == 1:
            return np.full(row_count, self._partition or 0, np.int64)
        sticky = np.full(row_count, self._keyless_partition(), np.int64)
        if key is None or key.null_count == len(key):
            return sticky
        by_key = partitions_for_keys(key, self._count)
        return np.where(np.asarray(key.is_null()), sticky, by_key) if key.null_count else by_key

    def _memory(self) -> bytearray | None:
        """For all batches after the first: each is written out when the next one is built."""
        if self._kept is None and self.written:
            self._kept = bytearray(self._max_size)
        return self._kept

    def _write(self, partition: int, data: bytearray | memoryview, count: int) -> None:
        first = self._log._append_own(self._topic, partition, BuiltBatch(data))
        known = self.written.get(partition)
        from_offset = first if known is None else known.from_offset
        self.written[partition] = OffsetRange(from_offset=from_offset, until_offset=first + count)


def _packed(columns: RecordColumns, partitions: Any, size: int) -> Iterator[PackedRecords]:
    try:
        yield from pack_records(columns, partitions, size)
    except ValueError as error:
        raise UserError(str(error)) from error


def _table(records: Any) -> Any | None:
    """An Arrow table of input with columns; `None` for input that is read record by record."""
    kind = type(records).__module__.partition(".")[0]
    if kind == "polars" and hasattr(records, "collect"):
        records = records.collect()
    is_frame = kind == "pandas" or hasattr(records, "__arrow_c_stream__")
    if not is_frame and kind != "pyarrow" and not isinstance(records, Mapping):
        return None
    with needed_for("append_many of columns"):
        import pyarrow as pa

    if type(records).__name__ == "Series":
        raise UserError(f"append_many takes frames; make one of the Series: {SERIES[kind]}")
    if kind == "pandas":
        try:
            return pa.Table.from_pandas(records, preserve_index=False)
        except pa.ArrowException as error:
            raise UserError("; ".join(map(str, error.args))) from error
    if isinstance(records, pa.RecordBatch):
        return pa.Table.from_batches([records])
    try:
        return records if isinstance(records, pa.Table) else pa.table(records)
    except (TypeError, ValueError) as error:  # Arrow's own errors are ValueErrors.
        raise UserError(f"append_many takes columns of one length: {error}") from error


def _ends(keys: list[Any] | None, values: list[Any]) -> list[int]:
    """The greatest size of the rows up to each one, encoded."""
    ends = map(add, accumulate(_sizes(values)), count(MAX_RECORD_OVERHEAD, MAX_RECORD_OVERHEAD))
    return list(ends if keys is None else map(add, ends, accumulate(_sizes(keys))))


def _sizes(fields: list[Any]) -> Iterable[int]:
    return (len(one or b"") for one in fields) if None in fields else map(len, fields)


def _codec(name: Compression | str) -> Compression:
    if isinstance(name, Compression):
        return name
    if not isinstance(name, str) or name not in CODECS:
        raise UserError(f"there is no codec {name}; there are {', '.join(CODECS)}")
    return CODECS[name]


def _has_columns() -> bool:
    try:
        import numpy  # noqa: F401
        import pyarrow  # noqa: F401
    except ImportError:
        return False
    return True
