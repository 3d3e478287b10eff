"""Columns whose numbers get more bits in a later schema: an `int` that becomes a `bigint`."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa


def is_narrower(has: "pa.Schema", wanted: "pa.Schema") -> bool:
    """Whether a number of the first schema, at any depth, has more bits in the second one."""
    return bool(widened_schema(has, wanted) != has)


def widened_schema(has: "pa.Schema", wanted: "pa.Schema") -> "pa.Schema":
    """The columns of the first schema, with each `int` a `bigint` that is one in the second."""
    import pyarrow as pa

    return pa.schema([_widened_field(field, wanted) for field in has])


def _widened_field(field: Any, wanted: Any) -> Any:
    """`wanted`: a schema or a struct type."""
    index = wanted.get_field_index(field.name)
    return field if index < 0 else field.with_type(_widened(field.type, wanted.field(index).type))


def _widened(has: Any, wanted: Any) -> Any:
    import pyarrow as pa
    import pyarrow.types as types

    if types.is_struct(has) and types.is_struct(wanted):
        return pa.struct([_widened_field(field, wanted) for field in has])
    if types.is_list(has) and types.is_list(wanted):
        inner = has.value_field
        return pa.list_(inner.with_type(_widened(inner.type, wanted.value_type)))
    if types.is_map(has) and types.is_map(wanted):
        inner = has.item_field
        return pa.map_(has.key_field, inner.with_type(_widened(inner.type, wanted.item_type)))
    return wanted if types.is_int32(has) and types.is_int64(wanted) else has
