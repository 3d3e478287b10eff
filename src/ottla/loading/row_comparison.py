"""The rows of a table and the records of its log, in the same columns and types."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ottla.base.partitions import OffsetRange
from ottla.base.times import FIRST_TIME_MS, LAST_TIME_MS
from ottla.record.batch import NO_TIMESTAMP
from ottla.record.columns import COLUMNS
from ottla.tables import DataFile, DataFiles

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa


def stored_rows(opened: DataFiles, files: Sequence[DataFile], wanted: OffsetRange) -> "pa.Table":
    """The rows of some files in the columns of `record.columns`, in order of offset.

    Columns whose type differs from the log's in any file, such as decoded values, are left out.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    parts = [_as_decoded(opened, file) for file in files]
    shared = [name for name in COLUMNS if all(name in part.column_names for part in parts)]
    rows = pa.concat_tables(part.select(shared) for part in parts).sort_by("offset")
    offsets = rows["offset"]
    is_wanted = pc.and_(
        pc.greater_equal(offsets, wanted.from_offset), pc.less(offsets, wanted.until_offset)
    )
    return rows.filter(is_wanted)


def without_offsets(rows: "pa.Table", offsets: "Sequence[np.ndarray[Any, Any]]") -> "pa.Table":
    """The rows without those at the given offsets."""
    import numpy as np
    import pyarrow as pa

    if not offsets:
        return rows
    return rows.filter(pa.array(~np.isin(rows["offset"].to_numpy(), np.concatenate(offsets))))


def _is_as_in_the_log(schema: "pa.Schema", name: str) -> bool:
    """Whether a column has the log's type; only keys and values may have another one."""
    import pyarrow as pa

    return name not in ("key", "value") or schema.field(name).type == pa.binary()


def _as_decoded(opened: DataFiles, file: DataFile) -> "pa.Table":
    import pyarrow as pa
    import pyarrow.compute as pc

    from ottla.record.columns import schema

    columns_there = opened.columns(file)
    there = [
        name
        for name in (*COLUMNS, "timestamp")
        if name in columns_there.names and _is_as_in_the_log(columns_there, name)
    ]
    rows = opened.rows(file, there)
    columns = {name: rows[name] for name in there if name != "timestamp"}
    if "timestamp" in there:
        times = pc.cast(pc.cast(rows["timestamp"], pa.timestamp("ms", "UTC")), pa.int64())
        # Spark represents a missing timestamp as null, the log as -1.
        columns["timestamp_ms"] = pc.fill_null(times, -1)
    return pa.table(
        {name: columns[name].cast(schema().field(name).type) for name in COLUMNS if name in columns}
    )


def _with_calendar_times(rows: "pa.Table") -> "pa.Table":
    """The rows without timestamps that are null in a table (`sources.rows`): -1, as a missing one
    in the log.
    """
    import pyarrow.compute as pc

    place = rows.schema.get_field_index("timestamp_ms")
    if place < 0:
        return rows
    times_ms = rows.column(place)
    is_there = pc.and_(
        pc.greater_equal(times_ms, FIRST_TIME_MS), pc.less_equal(times_ms, LAST_TIME_MS)
    )
    found = pc.if_else(is_there, times_ms, NO_TIMESTAMP)
    return rows.set_column(place, rows.schema.field(place), found)


def first_difference(stored: "pa.Table", log: "pa.Table") -> tuple[int, str] | None:
    """The offset of the first row that differs, and the difference."""
    stored, log = _with_calendar_times(stored), _with_calendar_times(log)
    if stored.num_rows == log.num_rows and _same(stored, log):
        return None
    low, high = 0, min(stored.num_rows, log.num_rows)
    while low < high:
        middle = (low + high + 1) // 2
        if _same(stored.slice(0, middle), log.slice(0, middle)):
            low = middle
        else:
            high = middle - 1
    if low == stored.num_rows:
        return int(log["offset"][low].as_py()), "the table lacks this record"
    ours = stored.slice(low, 1).to_pylist()[0]
    if low == log.num_rows:
        return int(ours["offset"]), "the log has no such record"
    theirs = log.slice(low, 1).to_pylist()[0]
    if ours["offset"] != theirs["offset"]:
        return min(ours["offset"], theirs["offset"]), "only one of table and log has this record"
    names = [name for name in stored.column_names if ours[name] != theirs[name]]
    return int(ours["offset"]), "; ".join(
        f"{name} is {ours[name]!r:.60}, in the log {theirs[name]!r:.60}" for name in names
    )


def _same(one: "pa.Table", other: "pa.Table") -> bool:
    return all(one[name].equals(other[name]) for name in one.column_names)
