"""One Parquet file of a table: opened where the table lies, identified by its footer, written."""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from ottla.base.errors import TaskError
from ottla.tables.manifest import QUARANTINE_DIRECTORY, DataFile, FileRole
from ottla.tables.store import TableStore

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

ROW_GROUP_SIZE = 64 * 1024 * 1024
"""Bytes in memory of the rows that are compressed together."""

TARGET_SIZE = 128 * 1024 * 1024
"""Bytes of a file: what engines read in one go."""

_ZSTD_LEVEL = 3
_NO_DICTIONARY = ("offset", "value")
"""Offsets never repeat and values seldom do: their dictionaries are built to be thrown away."""


def open_parquet(store: TableStore, path: str) -> "pq.ParquetFile":
    """As one file: a dataset would take columns from the directories' names."""
    import pyarrow.parquet as pq

    return pq.ParquetFile(store.arrow_path(path), filesystem=store.arrow())


def read_footer(store: TableStore, path: str) -> DataFile | None:
    """A data file as its footer describes it; `None` for one without rows.

    Raises `TaskError` when its rows are of more than one partition, or not named.
    """
    file_system, place = store.arrow(), store.arrow_path(path)
    with file_system.open_input_file(place) as opened:
        size, footer = opened.size(), _footer(opened)
    if footer.num_rows == 0:
        return None
    first_partition, last_partition = _bounds(footer, "partition", place)
    if first_partition != last_partition:
        raise TaskError(f"{place}: rows of partitions {first_partition} to {last_partition}")
    first_offset, last_offset = _bounds(footer, "offset", place)
    return DataFile(
        path=path,
        size=size,
        row_count=footer.num_rows,
        partition=first_partition,
        first_offset=first_offset,
        last_offset=last_offset,
        role=_role(path),
        values=_values(path),
    )


class ParquetOutput:
    """A file that is being written. It is there, under its name, after `close`."""

    def __init__(self, store: TableStore, path: str, compression: str) -> None:
        self.path = path
        self._store = store
        self._compression = compression
        self._stack = ExitStack()
        self._writer: pq.ParquetWriter | None = None
        self._held: list[pa.RecordBatch] = []
        self.held_size = 0
        """Bytes of rows that are no row group yet."""

    def __enter__(self) -> "ParquetOutput":
        return self

    def __exit__(self, *error: Any) -> None:
        if error[0] is None:
            self.close()
        else:
            self._stack.__exit__(*error)

    def write(self, rows: "pa.RecordBatch") -> None:
        if rows.num_rows:
            self._held.append(rows)
            self.held_size += rows.nbytes
        if self.held_size >= ROW_GROUP_SIZE:
            self.flush()

    def flush(self) -> None:
        """Makes a row group of the rows that came since the last one."""
        import pyarrow as pa

        if self._held:
            table = pa.Table.from_batches(self._held)
            self._open(table.schema).write_table(table, row_group_size=table.num_rows)
        self._held, self.held_size = [], 0

    def close(self) -> bool:
        """Whether there is a file now: none is made of no rows."""
        self.flush()
        self._stack.close()
        return self._writer is not None

    def _open(self, schema: "pa.Schema") -> "pq.ParquetWriter":
        import pyarrow.parquet as pq

        if self._writer is None:
            file = self._stack.enter_context(self._store.output(self.path))
            writer = pq.ParquetWriter(
                file,
                schema,
                compression=self._compression,
                compression_level=_ZSTD_LEVEL if self._compression == "zstd" else None,
                use_dictionary=[
                    leaf
                    for field in schema
                    for leaf in _leaves(field.name, field.type)
                    if leaf not in _NO_DICTIONARY
                ],
            )
            self._writer = self._stack.enter_context(writer)
        return self._writer


def _leaves(path: str, kind: "pa.DataType") -> Iterator[str]:
    """The names that Parquet gives to the columns of a type."""
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


def _role(path: str) -> FileRole:
    in_quarantine = QUARANTINE_DIRECTORY in path.split("/")[:-1]
    return FileRole.QUARANTINE if in_quarantine else FileRole.ROWS


def _values(path: str) -> dict[str, str]:
    """Columns that the path holds, as Hive names directories."""
    pairs = (part.partition("=") for part in path.split("/")[:-1])
    return {name: unquote(value) for name, sign, value in pairs if sign}


def _bounds(footer: Any, column: str, path: str) -> tuple[int, int]:
    # By leaf: structs before it count as many columns as they have fields.
    leaves = [footer.schema.column(number).path for number in range(footer.num_columns)]
    index = leaves.index(column)
    statistics = [
        footer.row_group(number).column(index).statistics for number in range(footer.num_row_groups)
    ]
    if any(one is None or not one.has_min_max for one in statistics):
        raise TaskError(f"{path}: the footer says nothing about column {column}")
    return min(one.min for one in statistics), max(one.max for one in statistics)
