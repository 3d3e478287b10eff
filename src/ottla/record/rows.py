"""Converts decoded records to the Arrow rows of Spark's data source, and of tables.

Spark compares the first batch with the promised schema, including types and nullability, so the
target schema is Spark's own conversion of the promised one. Keys, values and headers keep the
buffers into which they were decoded.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ottla.base.times import FIRST_TIME_MS, LAST_TIME_MS
from ottla.record.batch import NO_TIMESTAMP
from ottla.record.columns import numbers

if TYPE_CHECKING:
    import pyarrow as pa

DECODED_COLUMNS = {
    "key": "key",
    "value": "value",
    "offset": "offset",
    "timestamp": "timestamp_ms",
    "timestampType": "timestamp_type",
    "timestamp_type": "timestamp_type",
    "headers": "headers",
}
"""The name of a column of rows, in Spark or in a table -> the name of the decoded column."""

_MICROSECONDS = 1000


def decoded_columns(columns: Sequence[str]) -> tuple[str, ...]:
    """The columns to decode for the requested ones; at least the offset, to count rows."""
    return tuple(
        {
            "offset": None,
            **{DECODED_COLUMNS[name]: None for name in columns if name in DECODED_COLUMNS},
        }
    )


class RowMaker:
    """Converts records of one partition to rows; created once per task.

    `has_null_headers`: a record without headers gets null, as in Spark's own Kafka source, rather
    than an empty list.
    """

    def __init__(
        self, topic: str, partition: int, schema: Any, *, has_null_headers: bool = False
    ) -> None:
        self._has_null_headers = has_null_headers
        self._topic = topic
        self._partition = partition
        self._schema = schema
        self._repeated: dict[str, pa.Array] = {}

    def rows(self, decoded: "pa.RecordBatch") -> "pa.RecordBatch":
        import pyarrow as pa

        columns = [self._column(field, decoded) for field in self._schema]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def _column(self, field: Any, decoded: "pa.RecordBatch") -> Any:
        match field.name:
            case "topic":
                return self._same(field, self._topic, decoded.num_rows)
            case "partition":
                return self._same(field, self._partition, decoded.num_rows)
            case "timestamp":
                return _timestamps(decoded.column("timestamp_ms"), field.type)
            case "headers":
                return _headers(decoded.column("headers"), field.type, self._has_null_headers)
            case name:
                return decoded.column(DECODED_COLUMNS[name])

    def _same(self, field: Any, value: str | int, count: int) -> Any:
        """A column with the same value in all rows, cached."""
        import pyarrow as pa

        made = self._repeated.get(field.name)
        if made is None or len(made) < count:
            made = pa.repeat(pa.scalar(value, field.type), count)
            self._repeated[field.name] = made
        return made.slice(0, count)


def _timestamps(timestamps_ms: Any, target: Any) -> Any:
    """Milliseconds as Spark's microseconds; null for no timestamp and for years out of range."""
    import numpy as np
    import pyarrow as pa

    values = timestamps_ms.to_numpy()
    if values.min(initial=0) >= 0 and values.max(initial=0) <= LAST_TIME_MS:
        return numbers(values * _MICROSECONDS, target)
    is_null = (values == NO_TIMESTAMP) | (values > LAST_TIME_MS) | (values < FIRST_TIME_MS)
    shown = np.where(is_null, 0, values) * _MICROSECONDS
    return pa.array(shown, mask=is_null).view(target)


def _headers(headers: Any, target: Any, empty_is_null: bool) -> Any:
    """The same buffers with the names and nullability of Spark's list of structs."""
    import numpy as np
    import pyarrow as pa

    if headers.type == target and not empty_is_null:
        return headers
    # Take only the elements of these lists: the offsets of a sliced list start above 0.
    bounds = headers.offsets.to_numpy()
    first, last = (int(bounds[0]), int(bounds[-1])) if len(headers) else (0, 0)
    flat = headers.values.slice(first, last - first)
    offsets = numbers(bounds - np.int32(first))
    elements = pa.StructArray.from_arrays(
        [flat.field(0), flat.field(1)], fields=list(target.value_type)
    )
    mask = pa.array(np.diff(bounds) == 0) if empty_is_null else None
    return pa.ListArray.from_arrays(offsets, elements, type=target, mask=mask)
