"""Changes of columns in a later schema: `int` to `bigint`, and new fields."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ottla.base.errors import UserError

if TYPE_CHECKING:
    import pyarrow as pa

Family = Callable[[Any], Any]
"""What two types have in common that a column may change to each other."""


def is_narrower(has: "pa.Schema", wanted: "pa.Schema") -> bool:
    """Whether a number in the first schema, at any depth, is wider in the second."""
    return bool(widened_schema(has, wanted) != has)


def widened_schema(has: "pa.Schema", wanted: "pa.Schema") -> "pa.Schema":
    """The first schema, with each `int` that is a `bigint` in the second widened."""
    import pyarrow as pa

    return pa.schema(_fields(has, wanted, with_new=False))


def grown_schema(has: "pa.Schema", wanted: "pa.Schema") -> "pa.Schema":
    """Like `widened_schema`, with columns and fields that only the second schema has added at the
    end.
    """
    import pyarrow as pa

    return pa.schema(_fields(has, wanted, with_new=True))


def whole_numbers(kind: Any) -> Any:
    """The same for `int` and `bigint`, which Delta's columns may change to each other."""
    import pyarrow.types as types

    return "whole" if types.is_int32(kind) or types.is_int64(kind) else kind


def numbers(kind: Any) -> Any:
    """The same for all types of numbers that Iceberg's columns may change to each other."""
    import pyarrow.types as types

    if types.is_floating(kind):
        return "floating"
    return ("decimal", kind.scale) if types.is_decimal(kind) else whole_numbers(kind)


def check_columns(has: "pa.Schema", wanted: "pa.Schema", family: Family = whole_numbers) -> None:
    """Raises `UserError` if no load may make of a table's columns what is wanted."""
    changed = changed_column(has, wanted, family)
    if changed is not None:
        raise UserError(
            f"the table's column {changed}: another version of Ottla or another program made it; "
            f"load into another table"
        )


def changed_column(
    has: Any, wanted: Any, family: Family = whole_numbers, place: str = ""
) -> str | None:
    """What differs between two schemas or types in a way that no load may change."""
    import pyarrow as pa
    import pyarrow.types as types

    is_struct = isinstance(has, pa.Schema) or (types.is_struct(has) and types.is_struct(wanted))
    if is_struct:
        for field in has:
            index = wanted.get_field_index(field.name)
            if index >= 0:
                inner = f"{place}.{field.name}" if place else field.name
                found = changed_column(field.type, wanted.field(index).type, family, inner)
                if found is not None:
                    return found
        return None
    if types.is_list(has) and types.is_list(wanted):
        return changed_column(has.value_type, wanted.value_type, family, f"{place}[]")
    if types.is_map(has) and types.is_map(wanted):
        return changed_column(has.item_type, wanted.item_type, family, f"{place}{{}}")
    is_same = family(has) == family(wanted)
    return None if is_same else f"{place} is {has} and would be {wanted}"


def _fields(has: Any, wanted: Any, *, with_new: bool) -> list[Any]:
    """The fields of `has`, widened to `wanted`; both are schemas or struct types."""
    found = []
    for field in has:
        index = wanted.get_field_index(field.name)
        if index >= 0:
            kind = _widened(field.type, wanted.field(index).type, with_new=with_new)
            field = field.with_type(kind)
        found.append(field)
    if with_new:
        found += [field for field in wanted if has.get_field_index(field.name) < 0]
    return found


def _widened(has: Any, wanted: Any, *, with_new: bool) -> Any:
    import pyarrow as pa
    import pyarrow.types as types

    if types.is_struct(has) and types.is_struct(wanted):
        return pa.struct(_fields(has, wanted, with_new=with_new))
    if types.is_list(has) and types.is_list(wanted):
        inner = has.value_field
        kind = _widened(inner.type, wanted.value_type, with_new=with_new)
        return pa.list_(inner.with_type(kind))
    if types.is_map(has) and types.is_map(wanted):
        inner = has.item_field
        kind = _widened(inner.type, wanted.item_type, with_new=with_new)
        return pa.map_(has.key_field, inner.with_type(kind))
    return wanted if types.is_int32(has) and types.is_int64(wanted) else has
