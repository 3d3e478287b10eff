"""Flat tables: the fields of values are the table's columns, beside the record's own with a `_`.

The rows that the code works on always have `value` as a struct. Rows are made flat as they are
written to a file, and get their struct back as they are read. In a flat file a null value and one
whose fields are all null are the same, and are read as null.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ottla.base.errors import UserError

if TYPE_CHECKING:
    import pyarrow as pa

FLAT_NAMES = {
    "key": "_key",
    "topic": "_topic",
    "partition": "_partition",
    "offset": "_offset",
    "timestamp": "_timestamp",
    "timestamp_type": "_timestamp_type",
    "headers": "_headers",
    "header": "_header",
    "commit_id": "_commit_id",
    "valid_from": "_valid_from",
    "valid_to": "_valid_to",
    "is_current": "_is_current",
    "_change_type": "_change_type",
}
"""The names of a record's own columns in a flat table."""

_ROW_NAMES = {flat: name for name, flat in FLAT_NAMES.items()}


def is_flat(names: Iterable[str]) -> bool:
    """Whether these are the columns of a flat table: no other one has such names."""
    return {"_partition", "_offset"} <= set(names)


def stored_path(path: tuple[str, ...], *, is_flat: bool) -> tuple[str, ...]:
    """The path of a column or field in the files of a table."""
    if not is_flat:
        return path
    return path[1:] if path[0] == "value" else (FLAT_NAMES[path[0]], *path[1:])


def no_such_column(asked: str, rows: "pa.Schema", *, is_flat: bool) -> UserError:
    """The error for an option that names a column which the table lacks."""
    names = list(_names(rows, is_flat=is_flat))
    dotted = next((name for name in _fields(rows) if "." in name and name in asked), None)
    if dotted is not None:
        mend = f"--rename {dotted}={dotted.replace('.', '_')}"
        return UserError(
            f"{asked}: a column with a dot in its name cannot be named here; use {mend}"
        )
    return UserError(f"{asked}: the table has no such column; it has {', '.join(names)}")


def _names(rows: "pa.Schema", *, is_flat: bool) -> Iterator[str]:
    import pyarrow.types as types

    for field in rows:
        if field.name == "headers":
            continue
        inner = list(field.type) if types.is_struct(field.type) else []
        for one in inner:
            path = (field.name, one.name)
            yield ".".join(stored_path(path, is_flat=is_flat))
        if not inner:
            yield FLAT_NAMES[field.name] if is_flat else field.name


def _fields(rows: "pa.Schema") -> Iterator[str]:
    """The names of values' own fields."""
    import pyarrow.types as types

    kind = rows.field("value").type
    return (one.name for one in kind) if types.is_struct(kind) else iter(())


def flat_schema(rows: "pa.Schema") -> "pa.Schema":
    """The columns of a flat table."""
    import pyarrow as pa

    own = [one.with_name(FLAT_NAMES[one.name]) for one in rows if one.name != "value"]
    return pa.schema([*rows.field("value").type, *own])


def flat_rows(rows: "pa.RecordBatch") -> "pa.RecordBatch":
    """Rows as the files of a flat table have them."""
    import pyarrow as pa

    # `compute.struct_field` takes a millisecond for each of two thousand fields.
    fields = rows.column("value").flatten()
    own = [rows.column(one.name) for one in rows.schema if one.name != "value"]
    return pa.RecordBatch.from_arrays([*fields, *own], schema=flat_schema(rows.schema))


def row_schema(flat: "pa.Schema") -> "pa.Schema":
    """The columns of rows, of those of a flat file."""
    import pyarrow as pa

    value = pa.struct([one for one in flat if one.name not in _ROW_NAMES])
    own = [one.with_name(_ROW_NAMES[one.name]) for one in flat if one.name in _ROW_NAMES]
    return pa.schema([pa.field("value", value), *own], flat.metadata)


def stored_names(columns: Sequence[str], flat: "pa.Schema") -> list[str]:
    """The columns of a flat file for columns of rows."""
    found: list[str] = []
    for name in columns:
        if name == "value":
            found += [one.name for one in flat if one.name not in _ROW_NAMES]
        else:
            found.append(FLAT_NAMES[name])
    return found


def with_struct(rows: Any, columns: Sequence[str] | None = None) -> Any:
    """A batch or table of a flat file's columns as rows, with these columns."""
    schema = row_schema(rows.schema)
    names = schema.names if columns is None else list(columns)
    if isinstance(rows, _batch_type()):
        return _with_struct(rows, names)
    import pyarrow as pa

    batches = [_with_struct(one, names) for one in rows.to_batches()]
    return pa.Table.from_batches(batches, pa.schema([schema.field(name) for name in names]))


def _batch_type() -> Any:
    import pyarrow as pa

    return pa.RecordBatch


def _with_struct(rows: "pa.RecordBatch", names: Sequence[str]) -> "pa.RecordBatch":
    import pyarrow as pa

    schema = row_schema(rows.schema)
    wanted = pa.schema([schema.field(name) for name in names])
    columns = [
        _value_of(rows, schema.field("value").type)
        if name == "value"
        else rows.column(FLAT_NAMES[name])
        for name in names
    ]
    return pa.RecordBatch.from_arrays(columns, schema=wanted)


def _value_of(rows: "pa.RecordBatch", kind: Any) -> Any:
    import pyarrow as pa

    fields = [rows.column(one.name) for one in kind]
    if not fields:
        return pa.nulls(rows.num_rows, kind)
    return _as_read(pa.StructArray.from_arrays(fields, fields=list(kind)))


def as_read(values: Any) -> Any:
    """Values as a flat file gives them back: null if all of their fields are."""
    import pyarrow as pa

    return _as_read(pa.StructArray.from_arrays(values.flatten(), fields=list(values.type)))


def _as_read(values: Any) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    fields = values.flatten()
    is_null = pc.is_null(fields[0])
    for one in fields[1:]:
        is_null = pc.and_(is_null, pc.is_null(one))
    if not pc.any(is_null).as_py():
        return values
    return pa.StructArray.from_arrays(fields, fields=list(values.type), mask=is_null)


def check_flat(value: Any, taken: Sequence[str] = ()) -> None:
    """Raises `UserError` if the fields of a value cannot be columns beside the record's own."""
    import pyarrow.types as types

    if value is None or not types.is_struct(value):
        raise UserError(
            "--columns flat makes columns of the fields of decoded values: add --decode json, avro "
            "or protobuf"
        )
    own = {name.lower() for name in (*FLAT_NAMES.values(), *taken)}
    for field in value:
        if field.name.lower() in own:
            raise UserError(
                f"--columns flat: values have a field {field.name}, which is the name of a column "
                f"of its own; rename it: --rename {field.name}={field.name.strip('_')}_value"
            )
