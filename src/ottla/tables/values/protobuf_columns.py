"""Converts Protobuf messages to columns: many messages at once, field by field.

A field with presence (`optional`, a member of a `oneof`, a message) is null if it is not set, or
the default that the schema gives; other fields have Protobuf's zero value. Names are those of the
schema; enum values are their names.
"""

from collections.abc import Callable, Mapping
from itertools import chain
from operator import attrgetter
from typing import Any

from ottla.tables.values.decoder import require
from ottla.tables.values.schema import struct_type, type_text

Column = Callable[[list[Any]], Any]
"""Converts messages, none of which is null, to an Arrow array."""

_WRAPPERS = frozenset(
    f"google.protobuf.{one}Value"
    for one in ("Bool", "Bytes", "Double", "Float", "Int32", "Int64", "String", "UInt32", "UInt64")
)
_TIMESTAMP = "google.protobuf.Timestamp"
_AS_JSON = frozenset(f"google.protobuf.{one}" for one in ("Struct", "Value", "ListValue"))
"""Messages with arbitrary, recursive JSON; their column is JSON text."""

_MICROSECONDS, _NANOSECONDS = 1_000_000, 1000


def message_type(descriptor: Any, place: str = "value", within: tuple[str, ...] = ()) -> Any:
    """The Arrow type of a message; raises `UserError` if it cannot be a column."""
    import pyarrow as pa

    name = descriptor.full_name
    if name == _TIMESTAMP:
        return pa.timestamp("us", "UTC")
    if name in _WRAPPERS:
        return _scalar_type(descriptor.fields_by_name["value"])
    if name in _AS_JSON:
        return pa.string()
    if not descriptor.fields:
        # Parquet has no empty structs, so the column only says whether the message is set.
        return pa.bool_()
    require(name not in within, f"{place}: message {name} is recursive, which a column cannot be")
    inner = (*within, name)
    return struct_type(
        (field.name, _field_type(field, f"{place}.{field.name}", inner))
        for field in descriptor.fields
    )


def _field_type(field: Any, place: str, within: tuple[str, ...]) -> Any:
    import pyarrow as pa

    if _is_map(field):
        # keys may also be numbers or booleans; the column has them as text
        return pa.map_(pa.string(), _element_type(_map_value(field), place, within))
    kind = _element_type(field, place, within)
    return pa.list_(kind) if field.is_repeated else kind


def _element_type(field: Any, place: str, within: tuple[str, ...]) -> Any:
    if field.message_type is not None:
        return message_type(field.message_type, place, within)
    return _scalar_type(field)


def _scalar_type(field: Any) -> Any:
    import pyarrow as pa

    match field.cpp_type:
        case field.CPPTYPE_BOOL:
            return pa.bool_()
        case field.CPPTYPE_INT32:
            return pa.int32()
        case field.CPPTYPE_INT64 | field.CPPTYPE_UINT32:
            return pa.int64()
        case field.CPPTYPE_UINT64:
            return pa.decimal128(20, 0)
        case field.CPPTYPE_FLOAT | field.CPPTYPE_DOUBLE:
            return pa.float64()
        case field.CPPTYPE_ENUM:
            return pa.string()
    return pa.binary() if field.type == field.TYPE_BYTES else pa.string()


def _is_map(field: Any) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def _map_value(field: Any) -> Any:
    return field.message_type.fields_by_name["value"]


# Columns


def message_column(descriptor: Any, kind: Any) -> Column:
    """Converts messages to an Arrow type, which may be that of another version: fields that the
    message lacks are null. Raises `UserError` for incompatible types.
    """
    import pyarrow.types as types

    name = descriptor.full_name
    if name == _TIMESTAMP:
        return _timestamps(kind)
    if name in _WRAPPERS:
        return _scalars(attrgetter("value"), descriptor.fields_by_name["value"], kind)
    if name in _AS_JSON:
        return _json_texts(kind)
    if not descriptor.fields:
        _require_same(types.is_boolean(kind), name, kind)
        return lambda messages: _array([True] * len(messages), kind)
    _require_same(types.is_struct(kind), name, kind)
    known: Mapping[str, Any] = descriptor.fields_by_name
    columns = [
        _field_column(known[one.name], one.type) if one.name in known else _nulls(one.type)
        for one in kind
    ]
    fields = list(kind)

    def column(messages: list[Any]) -> Any:
        import pyarrow as pa

        return pa.StructArray.from_arrays([one(messages) for one in columns], fields=fields)

    return column


def _field_column(field: Any, kind: Any) -> Column:
    import pyarrow.types as types

    get = attrgetter(field.name) if field.name.isidentifier() else _named(field.name)
    if _is_map(field):
        _require_same(types.is_map(kind), field.full_name, kind)
        return _maps(get, field, kind)
    if field.is_repeated:
        _require_same(types.is_list(kind), field.full_name, kind)
        return _lists(get, _elements(field, kind.value_type), kind)
    if field.message_type is not None:
        return _messages(get, field, kind)
    if not field.has_presence or field.has_default_value:
        return _scalars(get, field, kind)
    return _optionals(get, field, kind)


def _named(name: str) -> Callable[[Any], Any]:
    return lambda message: getattr(message, name)


def _messages(get: Callable[[Any], Any], field: Any, kind: Any) -> Column:
    import pyarrow as pa
    import pyarrow.compute as pc

    inner, name = message_column(field.message_type, kind), field.name

    def column(messages: list[Any]) -> Any:
        is_there = pa.array([one.HasField(name) for one in messages], pa.bool_())
        found = inner([get(one) for one in messages])
        return found if pc.all(is_there).as_py() else pc.if_else(is_there, found, None)

    return column


def _lists(get: Callable[[Any], Any], inner: Column, kind: Any) -> Column:
    def column(messages: list[Any]) -> Any:
        import pyarrow as pa

        lists = [get(one) for one in messages]
        return pa.ListArray.from_arrays(
            _offsets(lists), inner(list(chain.from_iterable(lists))), type=kind
        )

    return column


def _maps(get: Callable[[Any], Any], field: Any, kind: Any) -> Column:
    inner = _elements(_map_value(field), kind.item_type)
    key = field.message_type.fields_by_name["key"]
    is_boolean, is_text = key.type == key.TYPE_BOOL, key.type == key.TYPE_STRING

    def text(value: Any) -> str:
        return str(value).lower() if is_boolean else str(value)

    def column(messages: list[Any]) -> Any:
        import pyarrow as pa

        # Sorted, because a message's order is arbitrary, and two reads must be equal.
        maps = [sorted(get(one).items(), key=_first) for one in messages]
        keys = [one for items in maps for one, _ in items]
        values = [one for items in maps for _, one in items]
        texts = _array(keys if is_text else [text(one) for one in keys], pa.string())
        return pa.MapArray.from_arrays(_offsets(maps), texts, inner(values)).cast(kind)

    return column


def _first(item: tuple[Any, Any]) -> Any:
    return item[0]


def _offsets(lists: list[Any]) -> Any:
    import numpy as np
    import pyarrow as pa

    offsets = np.zeros(len(lists) + 1, dtype=np.int32)
    np.cumsum([len(one) for one in lists], out=offsets[1:])
    return pa.array(offsets)


def _elements(field: Any, kind: Any) -> Column:
    """The column of the elements of a repeated field or a map, none of which is null."""
    if field.message_type is not None:
        return message_column(field.message_type, kind)
    made = _from_values(field, kind)
    return lambda values: _array(made(values), kind)


def _scalars(get: Callable[[Any], Any], field: Any, kind: Any) -> Column:
    made = _from_values(field, kind)
    return lambda messages: _array(made([get(one) for one in messages]), kind)


def _optionals(get: Callable[[Any], Any], field: Any, kind: Any) -> Column:
    made, name = _from_values(field, kind), field.name

    def column(messages: list[Any]) -> Any:
        return _array(made([get(one) if one.HasField(name) else None for one in messages]), kind)

    return column


def _from_values(field: Any, kind: Any) -> Callable[[list[Any]], list[Any]]:
    """Converts a field's values, which may include `None`, to those of its column."""
    own = _scalar_type(field)
    _require_same(goes_as(own, kind), field.full_name, kind)
    if field.enum_type is None:
        return lambda values: values
    names: dict[Any, Any] = {
        number: one.name for number, one in field.enum_type.values_by_number.items()
    }
    names[None] = None
    return lambda values: [names[one] if one in names else str(one) for one in values]


def _timestamps(kind: Any) -> Column:
    import pyarrow.types as types

    _require_same(types.is_timestamp(kind), _TIMESTAMP, kind)

    def column(messages: list[Any]) -> Any:
        import pyarrow as pa

        times = [one.seconds * _MICROSECONDS + one.nanos // _NANOSECONDS for one in messages]
        return pa.array(times, pa.int64()).view(kind)

    return column


def _json_texts(kind: Any) -> Column:
    import pyarrow.types as types
    from google.protobuf.json_format import MessageToJson

    _require_same(types.is_string(kind), "google.protobuf.Struct", kind)
    return lambda messages: _array(
        [MessageToJson(one, indent=None, ensure_ascii=False) for one in messages], kind
    )


def _nulls(kind: Any) -> Column:
    def column(messages: list[Any]) -> Any:
        import pyarrow as pa

        return pa.nulls(len(messages), kind)

    return column


def _array(values: list[Any], kind: Any) -> Any:
    import pyarrow as pa

    return pa.array(values, kind)


def goes_as(own: Any, kind: Any) -> bool:
    """Whether values of a type can be stored in a column of another type."""
    import pyarrow.types as types

    return bool(own == kind or (types.is_int32(own) and types.is_int64(kind)))


def _require_same(holds: bool, name: str, kind: Any) -> None:
    require(holds, f"{name} does not match the table's {type_text(kind)}")
