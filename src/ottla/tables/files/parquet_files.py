"""Reads and writes a table's Parquet files and describes them by their footers."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import field, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from ottla.base.errors import UserError
from ottla.base.values import dataclass
from ottla.tables.columns.flat import flat_rows, is_flat, stored_path
from ottla.tables.columns.identity import RowOrder
from ottla.tables.columns.partitions import NULL_DIRECTORY
from ottla.tables.columns.sortable import ABOVE, sortable
from ottla.tables.columns.statistics import (
    Path,
    file_statistics,
    nan_metadata,
    nan_paths,
    shortened_bytes,
)
from ottla.tables.entries import DataFile, FileRole, role_at
from ottla.tables.files.field_ids import with_field_ids
from ottla.tables.stores.store import TableStore
from ottla.tables.values.json_rest import RESCUED_COLUMN

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    from ottla.tables.files.plain_parquet import PlainParquetFile

ROW_GROUP_SIZE = 64 * 1024 * 1024
"""The size of a row group's rows in memory, in bytes."""

TARGET_SIZE = 128 * 1024 * 1024
"""The size of a file in bytes that engines read in one task."""

KEY_SIZE = 32
"""The maximum size of key bounds in bytes; longer ones are cut."""

_ANY = (0, (1 << 31) - 1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ZSTD_LEVEL = 1
"""At level 3 files take 1.3 to 3.3 times as long to write, and are at most 3 % smaller."""
_NO_DICTIONARY = ("offset", "_offset", "value")
"""Offsets never repeat and values seldom do, so their dictionaries would be discarded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ParquetStyle:
    """How the files of a table are written."""

    compression: str = "zstd"
    field_ids: Mapping[str, int] = field(default_factory=dict)
    """Field ids by the paths of columns and fields, if the table's format uses them."""
    is_flat: bool = False
    """Whether rows are stored with the fields of their values as columns."""


def open_parquet(store: TableStore, path: str, kept: bytes | None = None) -> "PlainParquetFile":
    """Opens a single file; a dataset would add columns from directory names. `kept` is that of its
    `DataFile`.
    """
    from ottla.tables.files.plain_parquet import PlainParquetFile

    return PlainParquetFile(store.arrow_path(path), kept, filesystem=store.arrow())


def row_mask(kept: bytes, row_count: int) -> "np.ndarray[Any, Any]":
    """`DataFile.kept` as a mask; a deletion vector of Delta may end with the last deleted row."""
    import numpy as np

    mask = np.ones(max(row_count, len(kept) * 8), bool)
    mask[: len(kept) * 8] = np.unpackbits(np.frombuffer(kept, np.uint8)) == 1
    return mask[:row_count]


def read_footer(
    store: TableStore,
    path: str,
    *,
    order: RowOrder | None = None,
    statistics: Sequence[str] | None = None,
    kept: bytes | None = None,
) -> list[DataFile]:
    """The rows of a data file by partition, from its footer; with the `statistics` of the named
    columns, or of the first if none is named, and with bounds of the keys that `order` has.

    Ottla writes no row group with rows of two partitions. For a file of another engine, and for one
    of which only some rows are `kept` (`DataFile.kept`), the columns are read. Raises `UserError`
    if it has rows without a partition or an offset.
    """
    file_system, place = store.arrow(), store.arrow_path(path)
    with file_system.open_input_file(place) as opened:
        size, footer = opened.size(), _footer(opened)
    whole = DataFile(
        path=path,
        size=size,
        row_count=footer.num_rows,
        partition=0,
        first_offset=0,
        last_offset=0,
        role=role_at(path),
        values=directory_values(path),
        statistics={} if statistics is None else file_statistics(footer, statistics),
        kept=kept,
    )
    if kept is not None:
        return _counted(store, whole)
    found: dict[int, DataFile] = {}
    for number in range(footer.num_row_groups):
        group = footer.row_group(number)
        partitions, offsets = range_of(group, "partition"), range_of(group, "offset")
        if partitions is None or offsets is None or min(*partitions, *offsets) < 0:
            return _counted(store, whole)
        if partitions[0] != partitions[1]:
            return _counted(store, whole)
        partition, (first_offset, last_offset) = partitions[0], offsets
        part = replace(
            whole,
            row_count=group.num_rows,
            partition=partition,
            first_offset=first_offset,
            last_offset=last_offset,
            times=_times(group),
            keys=None if order is None else _keys(group, order, whole.role),
            rescued_count=_rescued_count(group),
        )
        before = found.get(partition)
        found[partition] = part if before is None else _joined(before, part)
    return list(found.values())


def _joined(one: DataFile, other: DataFile) -> DataFile:
    """Combines two row groups of one partition."""
    times = None
    if one.times is not None and other.times is not None:
        times = min(one.times[0], other.times[0]), max(one.times[1], other.times[1])
    keys = None
    if one.keys is not None and other.keys is not None:
        keys = min(one.keys[0], other.keys[0]), max(one.keys[1], other.keys[1])
    return replace(
        one,
        row_count=one.row_count + other.row_count,
        first_offset=min(one.first_offset, other.first_offset),
        last_offset=max(one.last_offset, other.last_offset),
        times=times,
        keys=keys,
        rescued_count=one.rescued_count + other.rescued_count,
    )


def _counted(store: TableStore, whole: DataFile) -> list[DataFile]:
    with open_parquet(store, whole.path, whole.kept) as opened:
        rows = opened.read(columns=["partition", "offset"])
    if not all(_is_place(rows, name) for name in ("partition", "offset")):
        raise UserError(
            f"{store.address}/{whole.path}: another program has written rows whose partition or "
            f"offset is null or below 0; delete them there (DELETE ... WHERE partition IS NULL OR "
            f"partition < 0 OR offset IS NULL OR offset < 0), and load with --rerun what they were"
        )
    counted = rows.group_by("partition").aggregate(
        [("offset", "count"), ("offset", "min"), ("offset", "max")]
    )
    return [
        replace(
            whole,
            row_count=row["offset_count"],
            partition=row["partition"],
            first_offset=row["offset_min"],
            last_offset=row["offset_max"],
        )
        for row in counted.sort_by("partition").to_pylist()
    ]


def _is_place(rows: "pa.Table", name: str) -> bool:
    """Whether all rows have a partition, or an offset."""
    import pyarrow.compute as pc

    if name not in rows.column_names or rows[name].null_count:
        return False
    return not rows.num_rows or pc.min(rows[name]).as_py() >= 0


class ParquetOutput:
    """A file that is being written; it exists under its name after `close`.

    `sorted_by` names the column by which the caller sorts rows; the footer records it.
    """

    def __init__(
        self, store: TableStore, path: str, style: ParquetStyle, *, sorted_by: str | None = None
    ) -> None:
        self.path = path
        self._is_flat = style.is_flat and role_at(path) is FileRole.ROWS
        self._sorted_by = f"_{sorted_by}" if sorted_by and self._is_flat else sorted_by
        self._store = store
        self._style = style
        self._stack = ExitStack()
        self._writer: pq.ParquetWriter | None = None
        self._partition = 0
        self._with_nan: set[Path] = set()
        self._held: list[pa.RecordBatch] = []
        self.held_size = 0
        """Bytes of rows that are not in a row group yet."""

    def __enter__(self) -> "ParquetOutput":
        return self

    def __exit__(self, *error: Any) -> None:
        if error[0] is None:
            self.close()
        else:
            self._stack.__exit__(*error)

    def write(self, rows: "pa.RecordBatch", partition: int = 0) -> None:
        """Writes rows of one partition; a row group never has rows of two."""
        if partition != self._partition:
            self.flush()
            self._partition = partition
        if rows.num_rows:
            if self._is_flat:
                rows = flat_rows(rows)
            self._with_nan |= nan_paths(rows)
            self._held.append(rows)
            self.held_size += rows.nbytes
        if self.held_size >= ROW_GROUP_SIZE:
            self.flush()

    def flush(self) -> None:
        """Writes the held rows as a row group."""
        import pyarrow as pa

        if self._held:
            table = pa.Table.from_batches(self._held)
            self._open(table.schema).write_table(table, row_group_size=table.num_rows)
        self._held, self.held_size = [], 0

    def close(self) -> bool:
        """Closes the file; returns whether it exists: without rows no file is created."""
        with self._stack:
            self.flush()
            if self._writer is not None and self._with_nan:
                self._writer.add_key_value_metadata(nan_metadata(self._with_nan))
        return self._writer is not None

    def _open(self, schema: "pa.Schema") -> "pq.ParquetWriter":
        import pyarrow.parquet as pq

        if self._writer is None:
            leaves = [leaf for field in schema for leaf in _leaves(field.name, field.type)]
            order = [leaves.index(self._sorted_by)] if self._sorted_by else []
            file = self._stack.enter_context(self._store.output(self.path))
            codec = self._style.compression
            writer = pq.ParquetWriter(
                file,
                with_field_ids(schema, self._style.field_ids),
                compression=codec,
                compression_level=_ZSTD_LEVEL if codec == "zstd" else None,
                use_dictionary=[leaf for leaf in leaves if leaf not in _NO_DICTIONARY],
                sorting_columns=[pq.SortingColumn(one) for one in order] or None,
            )
            self._writer = self._stack.enter_context(writer)
        return self._writer


def _leaves(path: str, kind: "pa.DataType") -> Iterator[str]:
    """Parquet's names of the columns of a type."""
    import pyarrow.types as types

    if types.is_struct(kind):
        for field in kind:
            yield from _leaves(f"{path}.{field.name}", field.type)
    elif types.is_map(kind):
        yield from _leaves(f"{path}.key_value.key", kind.key_type)
        yield from _leaves(f"{path}.key_value.value", kind.item_type)
    elif types.is_list(kind):
        yield from _leaves(f"{path}.list.element", kind.value_type)
    else:
        yield path


def _footer(opened: Any) -> Any:
    import pyarrow.parquet as pq

    return pq.read_metadata(opened)


def directory_values(path: str) -> dict[str, str]:
    """Columns in the path, as in Hive's directory names."""
    return {name: unquote(value) for name, value in _directories(path).items()}


def values_in(path: str) -> dict[str, str | None]:
    """The columns in a file's path; a text that only looks like null is escaped there."""
    return {
        name: None if value == NULL_DIRECTORY else unquote(value)
        for name, value in _directories(path).items()
    }


def _directories(path: str) -> dict[str, str]:
    pairs = (part.partition("=") for part in path.split("/")[:-1])
    return {name: value for name, sign, value in pairs if sign}


def partition_bounds(footer: Any) -> list[tuple[int, int]]:
    """The lowest and highest partition that each row group may have."""
    groups = range(footer.num_row_groups)
    return [range_of(footer.row_group(number), "partition") or _ANY for number in groups]


def range_of(group: Any, column: str) -> tuple[Any, Any] | None:
    """The lowest and highest value of a row group; `None` if unknown or some values are null."""
    found = _statistics(group, column)
    if found is None or not found.has_min_max or found.null_count:
        return None
    return found.min, found.max


def sorted_column(opened: "PlainParquetFile") -> str | None:
    """The column by which all row groups of a file are sorted, according to the footer."""
    names = set()
    for number in range(opened.num_row_groups):
        group = opened.metadata.row_group(number)
        order = group.sorting_columns
        path = group.column(order[0].column_index).path_in_schema if order else None
        names.add(path[1:] if path and is_flat(opened.names_in_file) else path)
    return names.pop() if len(names) == 1 else None


def _times(group: Any) -> tuple[int, int] | None:
    """The time range in microseconds; `None` if unknown or some rows have no time."""
    found = _statistics(group, "timestamp")
    if found is None or not found.has_min_max or found.null_count:
        return None
    return _microseconds(found.min), _microseconds(found.max)


def _keys(group: Any, order: RowOrder, role: FileRole) -> tuple[bytes, bytes] | None:
    """Bounds of the keys, cut to `KEY_SIZE`; `None` if unknown."""
    if order.key and role is FileRole.ROWS:
        return _keys_of(group, order.key[0])
    found = _statistics(group, "key")
    if found is None or not found.has_min_max or found.physical_type != "BYTE_ARRAY":
        return None
    return shortened_bytes((bytes(found.min), bytes(found.max)), KEY_SIZE)


def _keys_of(group: Any, first: Path) -> tuple[bytes, bytes] | None:
    """Bounds of keys by the bounds of their first column."""
    import pyarrow as pa

    found = _statistics(group, ".".join(first))
    if found is None or not found.has_min_max:
        return None
    lowest, highest = sortable([pa.array([found.min, found.max])]).to_pylist()
    return shortened_bytes((lowest, highest + ABOVE), KEY_SIZE)


def _rescued_count(group: Any) -> int:
    """The rescued values and keys."""
    columns = (_statistics(group, f"{name}.{RESCUED_COLUMN}") for name in ("value", "key"))
    known = [one for one in columns if one is not None and one.has_null_count]
    return sum(int(group.num_rows - one.null_count) for one in known)


def _microseconds(time: datetime) -> int:
    return (time - _EPOCH) // timedelta(microseconds=1)


def _statistics(group: Any, column: str) -> Any:
    # by leaf columns: each struct counts as its fields
    by_path = {
        (one := group.column(number)).path_in_schema: one for number in range(group.num_columns)
    }
    path = ".".join(stored_path(tuple(column.split(".")), is_flat=is_flat(by_path)))
    return by_path[path].statistics if path in by_path else None
