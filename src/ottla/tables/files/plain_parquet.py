"""Parquet files of any writer, in the types of our own.

Other engines that rewrite rows (deltalake's DELETE, UPDATE and OPTIMIZE, polars) store Arrow's view
types or 64-bit offsets in the file's metadata, which Arrow's functions do not all take.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pyarrow.types as types

from ottla.tables.columns.flat import (
    is_flat,
    row_schema,
    stored_names,
    stored_path,
    with_struct,
)
from ottla.tables.columns.statistics import Path


class PlainParquetFile(pq.ParquetFile):  # type: ignore[misc]
    """Like its base; texts and bytes are `string` and `binary`, lists `list`.

    The columns are those of rows, also of a flat file.
    """

    @property
    def names_in_file(self) -> list[str]:
        """The columns as the file has them."""
        return list(super().schema_arrow.names)

    @property
    def schema_arrow(self) -> pa.Schema:
        plain = self._plain_schema()
        return row_schema(plain) if is_flat(plain.names) else plain

    def read(self, columns: Sequence[str] | None = None, **options: Any) -> pa.Table:
        return self._rows(super().read(self._stored(columns), **options), columns)

    def iter_batches(
        self, *args: Any, columns: Sequence[str] | None = None, **options: Any
    ) -> Iterator[pa.RecordBatch]:
        for batch in super().iter_batches(*args, columns=self._stored(columns), **options):
            yield self._rows(batch, columns)

    def iter_leaves(self, group: int, paths: Sequence[Path], size: int) -> Iterator[pa.RecordBatch]:
        """Leaf columns of a row group, by their paths in rows, each as a column of its own."""
        stored = [stored_path(one, is_flat=is_flat(self.names_in_file)) for one in paths]
        wanted = [".".join(one) for one in stored]
        for batch in super().iter_batches(size, row_groups=[group], columns=wanted):
            plain = _with_plain_types(batch)
            columns = [_leaf(plain, one) for one in stored]
            yield pa.RecordBatch.from_arrays(columns, names=[".".join(one) for one in paths])

    def read_row_group(
        self, number: int, columns: Sequence[str] | None = None, **options: Any
    ) -> pa.Table:
        return self._rows(super().read_row_group(number, self._stored(columns), **options), columns)

    def read_row_groups(
        self, numbers: Sequence[int], columns: Sequence[str] | None = None, **options: Any
    ) -> pa.Table:
        return self._rows(
            super().read_row_groups(numbers, self._stored(columns), **options), columns
        )

    def _plain_schema(self) -> pa.Schema:
        given = super().schema_arrow
        fields = [one.with_type(plain_type(one.type)) for one in given]
        return pa.schema(fields, given.metadata)

    def _stored(self, columns: Sequence[str] | None) -> list[str] | None:
        if columns is None:
            return None
        plain = self._plain_schema()
        return stored_names(columns, plain) if is_flat(plain.names) else list(columns)

    def _rows(self, found: Any, columns: Sequence[str] | None) -> Any:
        plain = _with_plain_types(found)
        return with_struct(plain, columns) if is_flat(self.names_in_file) else plain


def _leaf(rows: pa.RecordBatch, path: Path) -> pa.Array:
    found = rows.column(path[0])
    for name in path[1:]:
        found = pc.struct_field(found, [found.type.get_field_index(name)])
    return found


def _with_plain_types(rows: Any) -> Any:
    fields = [one.with_type(plain_type(one.type)) for one in rows.schema]
    plain = pa.schema(fields, rows.schema.metadata)
    return rows if plain.equals(rows.schema) else rows.cast(plain)


def plain_type(kind: Any) -> Any:
    """The type of our own for one of any writer."""
    if types.is_struct(kind):
        return pa.struct([one.with_type(plain_type(one.type)) for one in kind])
    if types.is_map(kind):
        item = kind.item_field.with_type(plain_type(kind.item_type))
        return pa.map_(kind.key_field.with_type(plain_type(kind.key_type)), item)
    if types.is_list(kind) or types.is_large_list(kind) or types.is_list_view(kind):
        return pa.list_(kind.value_field.with_type(plain_type(kind.value_type)))
    if types.is_large_string(kind) or types.is_string_view(kind):
        return pa.string()
    if types.is_large_binary(kind) or types.is_binary_view(kind):
        return pa.binary()
    return kind
