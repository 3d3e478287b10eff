"""Parquet files of any writer, in the types of our own.

Other engines that rewrite rows (deltalake's DELETE, UPDATE and OPTIMIZE, polars) store Arrow's view
types or 64-bit offsets in the file's metadata, which Arrow's functions do not all take.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
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
from ottla.tables.files.parquet_files import row_mask


class PlainParquetFile(pq.ParquetFile):  # type: ignore[misc]
    """Like its base; texts and bytes are `string` and `binary`, lists `list`.

    The columns are those of rows, also of a flat file. With `kept` (`DataFile.kept`) other rows are
    left out; the metadata is that of all rows.
    """

    def __init__(self, source: Any, kept: bytes | None = None, **options: Any) -> None:
        super().__init__(source, **options)
        self._kept = None if kept is None else row_mask(kept, self.metadata.num_rows)

    @property
    def names_in_file(self) -> list[str]:
        """The columns as the file has them."""
        return list(super().schema_arrow.names)

    @property
    def schema_arrow(self) -> pa.Schema:
        plain = self._plain_schema()
        return row_schema(plain) if is_flat(plain.names) else plain

    def read(self, columns: Sequence[str] | None = None, **options: Any) -> pa.Table:
        return self._rows(super().read(self._stored(columns), **options), columns, self._all())

    def iter_batches(
        self,
        *args: Any,
        columns: Sequence[str] | None = None,
        row_groups: Sequence[int] | None = None,
        **options: Any,
    ) -> Iterator[pa.RecordBatch]:
        position, mask = 0, self._all() if row_groups is None else self._of_groups(row_groups)
        for batch in super().iter_batches(
            *args, columns=self._stored(columns), row_groups=row_groups, **options
        ):
            some = None if mask is None else mask[position : position + batch.num_rows]
            position += batch.num_rows
            yield self._rows(batch, columns, some)

    def iter_leaves(self, group: int, paths: Sequence[Path], size: int) -> Iterator[pa.RecordBatch]:
        """Leaf columns of a row group, by their paths in rows, each as a column of its own."""
        stored = [stored_path(one, is_flat=is_flat(self.names_in_file)) for one in paths]
        wanted = [".".join(one) for one in stored]
        position, mask = 0, self._of_groups([group])
        for batch in super().iter_batches(size, row_groups=[group], columns=wanted):
            some = None if mask is None else mask[position : position + batch.num_rows]
            position += batch.num_rows
            plain = _masked(_with_plain_types(batch), some)
            columns = [_leaf(plain, one) for one in stored]
            yield pa.RecordBatch.from_arrays(columns, names=[".".join(one) for one in paths])

    def read_row_group(
        self, number: int, columns: Sequence[str] | None = None, **options: Any
    ) -> pa.Table:
        found = super().read_row_group(number, self._stored(columns), **options)
        return self._rows(found, columns, self._of_groups([number]))

    def read_row_groups(
        self, numbers: Sequence[int], columns: Sequence[str] | None = None, **options: Any
    ) -> pa.Table:
        found = super().read_row_groups(numbers, self._stored(columns), **options)
        return self._rows(found, columns, self._of_groups(numbers))

    def _plain_schema(self) -> pa.Schema:
        given = super().schema_arrow
        fields = [one.with_type(plain_type(one.type)) for one in given]
        return pa.schema(fields, given.metadata)

    def _stored(self, columns: Sequence[str] | None) -> list[str] | None:
        if columns is None:
            return None
        plain = self._plain_schema()
        return stored_names(columns, plain) if is_flat(plain.names) else list(columns)

    def _all(self) -> Any:
        return self._kept

    def _of_groups(self, numbers: Sequence[int]) -> Any:
        """The mask of the rows of row groups; `None` if all rows are there."""
        if self._kept is None:
            return None
        counts = [self.metadata.row_group(one).num_rows for one in range(self.num_row_groups)]
        starts = np.cumsum([0, *counts])
        return np.concatenate([self._kept[starts[one] : starts[one + 1]] for one in numbers])

    def _rows(self, found: Any, columns: Sequence[str] | None, mask: Any) -> Any:
        plain = _with_plain_types(_masked(found, mask))
        return with_struct(plain, columns) if is_flat(self.names_in_file) else plain


def _leaf(rows: pa.RecordBatch, path: Path) -> pa.Array:
    found = rows.column(path[0])
    for name in path[1:]:
        found = pc.struct_field(found, [found.type.get_field_index(name)])
    return found


def _masked(rows: Any, mask: Any) -> Any:
    return rows if mask is None else rows.filter(pa.array(mask))


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
