"""Combines the columns of several versions of a schema, and finds fields without a column."""

from typing import Any

from ottla.tables.values.schema import struct_type


class ConflictError(Exception):
    """Two types without a common type."""


def merged_type(before: Any, now: Any) -> Any:
    """The type that can store values of both types; raises `ConflictError`."""
    import pyarrow as pa
    import pyarrow.types as types

    if before == now:
        return now
    if types.is_struct(before) and types.is_struct(now):
        of_now = {field.name: field.type for field in now}
        fields = [
            (one.name, merged_type(one.type, of_now.pop(one.name, one.type))) for one in before
        ]
        return struct_type([*fields, *of_now.items()])
    if types.is_list(before) and types.is_list(now):
        return pa.list_(merged_type(before.value_type, now.value_type))
    if types.is_map(before) and types.is_map(now):
        return pa.map_(before.key_type, merged_type(before.item_type, now.item_type))
    widths = {pa.int32(): 0, pa.int64(): 1}
    if before in widths and now in widths:
        return pa.int64()
    raise ConflictError


def field_without_column(written: Any, shown: Any, place: str = "value") -> str | None:
    """The first field of `written` that has no column in `shown`; `None` if all have."""
    import pyarrow.types as types

    if types.is_struct(written) and types.is_struct(shown):
        for field in written:
            inner = f"{place}.{field.name}"
            index = shown.get_field_index(field.name)
            if index < 0:
                return inner
            found = field_without_column(field.type, shown.field(index).type, inner)
            if found is not None:
                return found
    elif types.is_list(written) and types.is_list(shown):
        return field_without_column(written.value_type, shown.value_type, f"{place}[]")
    elif types.is_map(written) and types.is_map(shown):
        return field_without_column(written.item_type, shown.item_type, f"{place}{{}}")
    return None


def not_in_the_table(field: str) -> str:
    """The fault of a value whose version has such a field."""
    return (
        f"its {field} is not in the table: load again to add it, unless the version conflicts "
        f"with earlier ones"
    )
