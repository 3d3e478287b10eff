"""Parquet files of any writer, in the types of our own.

Other engines that rewrite rows (deltalake's DELETE, UPDATE and OPTIMIZE, polars) store Arrow's view
types or 64-bit offsets in the file's metadata, which Arrow's functions do not all take.
"""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as types


class PlainParquetFile(pq.ParquetFile):  # type: ignore[misc]
    """Like its base; texts and bytes are `string` and `binary`, lists `list`."""

    @property
    def schema_arrow(self) -> pa.Schema:
        given = super().schema_arrow
        fields = [one.with_type(plain_type(one.type)) for one in given]
        return pa.schema(fields, given.metadata)

    def iter_batches(self, *args: Any, **options: Any) -> Iterator[pa.RecordBatch]:
        for batch in super().iter_batches(*args, **options):
            yield _with_plain_types(batch)

    def read_row_group(self, *args: Any, **options: Any) -> pa.Table:
        return _with_plain_types(super().read_row_group(*args, **options))

    def read_row_groups(self, *args: Any, **options: Any) -> pa.Table:
        return _with_plain_types(super().read_row_groups(*args, **options))


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
