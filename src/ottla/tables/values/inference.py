"""Infers a schema for JSON values from a sample; conflicting types are an error."""

import json
from collections.abc import Callable, Iterable
from typing import Any

from ottla.base.errors import UserError
from ottla.base.json_texts import refuse_constant
from ottla.tables.values.json_rest import RESCUED_COLUMN
from ottla.tables.values.schema import (
    MAX_DECIMAL_DIGITS,
    MOST_LEVELS,
    is_column_name,
    struct_type,
)

OnConflict = Callable[[Any, Any, str], Any]
"""Returns the shape for a place with values of two shapes."""

_MIXED = "mixed"
_INT64 = range(-(2**63), 2**63)
_NUMBERS = ("bigint", "decimal", "double")
"""Shapes of numbers, each of which has a column for those before: digits that a double lacks are
kept in the rescued column.
"""


def infer_schema(values: Iterable[bytes | None]) -> Any:
    """The Arrow struct type of the sample's objects; other values are ignored.

    Integers are `bigint`, or `decimal(38,0)` if one is larger; other numbers are `double`, strings
    `string`, even if they look like times. Fields with only null, `[]` and `{}` are left out, as
    are fields that cannot be columns: by their name, a name that differs from another only in case,
    or their depth. Raises `UserError` for fields with two types, and if the sample has no object.
    """
    values = list(values)
    kind = _type(_distinct(_shape_of_all(values, _refuse)))
    if kind is None:
        raise UserError(f"no schema can be inferred: {_why_none(values)}")
    return kind


def _why_none(values: Iterable[bytes | None]) -> str:
    objects = [one for one in map(_object, values) if one is not None]
    lacks = (_without_column(one, "value", MOST_LEVELS) for one in objects)
    reason = next((one for one in lacks if one is not None), None)
    if reason is not None:
        return f"the first values have no field for a column: {reason}"
    if any(objects):
        return "all fields of the first values are null, [] or {}; give --schema"
    return (
        "none of the first values is a JSON object with something in it; give --schema, or load "
        "values that are no JSON without --decode"
    )


def _without_column(value: Any, place: str, levels: int) -> str | None:
    """Why a part of a value has no column, and the repair; `None` for null and what is empty."""
    match value:
        case list() | dict() if not levels:
            return f"{place} is more than {MOST_LEVELS} levels deep; load without --decode"
        case bool():
            return None
        case int() if _whole(value) is None:
            return (
                f"{place} is a whole number of more than {MAX_DECIMAL_DIGITS} digits; give "
                f"--schema, in which it is a double: its digits are then kept in {RESCUED_COLUMN}"
            )
        case list():
            parts = [(f"{place}[]", one) for one in value]
        case dict():
            wrong = [name for name in value if not is_column_name(name)]
            if wrong:
                return f"{place} has a field {wrong[0]!r}, which no column can be called; rename it"
            parts = [(f"{place}.{name}", one) for name, one in value.items()]
        case _:
            return None
    found = (_without_column(one, where, levels - 1) for where, one in parts)
    return next((one for one in found if one is not None), None)


def with_inferred_fields(kind: Any, values: Iterable[bytes | None]) -> Any:
    """The struct type with fields of the sample added, also in nested structs; existing types do
    not change. Fields with two types in the sample are left out.
    """
    seen = _type(_distinct(_shape_of_all(values, _mixed)))
    return kind if seen is None else _with_fields(kind, seen)


def _distinct(shape: Any) -> Any:
    """Without names that differ from an earlier one only in case, which columns cannot."""
    match shape:
        case [inner]:
            return [_distinct(inner)]
        case dict():
            first: dict[str, str] = {}
            for name in shape:
                first.setdefault(name.lower(), name)
            return {name: _distinct(shape[name]) for name in first.values()}
    return shape


def _with_fields(kind: Any, seen: Any) -> Any:
    import pyarrow as pa
    import pyarrow.types as types

    if types.is_struct(kind) and types.is_struct(seen):
        of_seen = {field.name: field.type for field in seen}
        fields = [
            (one.name, _with_fields(one.type, of_seen.pop(one.name, one.type))) for one in kind
        ]
        names = {RESCUED_COLUMN, *(name.lower() for name, _ in fields)}
        new = [(name, one) for name, one in of_seen.items() if name.lower() not in names]
        return struct_type([*fields, *new])
    if types.is_list(kind) and types.is_list(seen):
        return pa.list_(_with_fields(kind.value_type, seen.value_type))
    return kind


def _shape_of_all(values: Iterable[bytes | None], on_conflict: OnConflict) -> Any:
    shape: Any = None
    for value in values:
        found = _object(value)
        if found is not None:
            one = _shape(found, "value", on_conflict, MOST_LEVELS)
            shape = _merge(shape, one, "value", on_conflict)
    return shape


def _object(value: bytes | None) -> dict[str, Any] | None:
    try:
        found = None if value is None else _read(value)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _read(value: bytes) -> Any:
    return json.loads(value, parse_constant=refuse_constant, parse_int=_integer)


def _integer(text: str) -> int:
    """Python refuses to read very many digits; all that have no column are alike."""
    return int(text) if len(text) <= MAX_DECIMAL_DIGITS + 1 else 10**MAX_DECIMAL_DIGITS


def _shape(value: Any, place: str, on_conflict: OnConflict, levels: int) -> Any:
    """`None`, a word, a list of the elements' shape, or a dict of the fields' shapes."""
    match value:
        case list() | dict() if not levels:
            return None
        case bool():
            return "boolean"
        case int():
            return _whole(value)
        case float():
            return "double"
        case str():
            return "string"
        case list():
            shape: Any = None
            for one in value:
                found = _shape(one, f"{place}[]", on_conflict, levels - 1)
                shape = _merge(shape, found, f"{place}[]", on_conflict)
            return [shape]
        case dict():
            return {
                name: _shape(one, f"{place}.{name}", on_conflict, levels - 1)
                for name, one in value.items()
                if is_column_name(name)
            }
    return None


def _whole(value: int) -> str | None:
    """`None` for integers without a column: they are rescued."""
    if value in _INT64:
        return "bigint"
    return "decimal" if abs(value) < 10**MAX_DECIMAL_DIGITS else None


def _merge(one: Any, other: Any, place: str, on_conflict: OnConflict) -> Any:
    if one is None or other is None or one == other:
        return other if one is None else one
    if isinstance(one, str) and isinstance(other, str) and {one, other} <= set(_NUMBERS):
        return max(one, other, key=_NUMBERS.index)
    if isinstance(one, list) and isinstance(other, list):
        return [_merge(one[0], other[0], f"{place}[]", on_conflict)]
    if isinstance(one, dict) and isinstance(other, dict):
        names = {**one, **other}
        return {
            name: _merge(one.get(name), other.get(name), f"{place}.{name}", on_conflict)
            for name in names
        }
    return on_conflict(one, other, place)


def _mixed(one: Any, other: Any, place: str) -> Any:
    """A shape that never becomes a column."""
    return _MIXED


def _refuse(one: Any, other: Any, place: str) -> Any:
    raise UserError(
        f"no schema can be inferred: {place} is {_word(one)} in some values and {_word(other)} in "
        f"others; give --schema"
    )


def _word(shape: Any) -> str:
    if isinstance(shape, str):
        return shape
    return "an array" if isinstance(shape, list) else "an object"


def _type(shape: Any) -> Any:
    import pyarrow as pa

    match shape:
        case None | "mixed":
            return None
        case [inner]:
            kind = _type(inner)
            return None if kind is None else pa.list_(kind)
        case dict():
            fields = [(name, _type(one)) for name, one in shape.items()]
            known = [(name, kind) for name, kind in fields if kind is not None]
            return struct_type(known) if known else None
    return {
        "boolean": pa.bool_(),
        "bigint": pa.int64(),
        "decimal": pa.decimal128(MAX_DECIMAL_DIGITS, 0),
        "double": pa.float64(),
        "string": pa.string(),
    }[shape]
