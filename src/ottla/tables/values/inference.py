"""A schema for JSON values from a sample of them; what the sample disagrees on is an error."""

import json
from collections.abc import Iterable
from typing import Any

from ottla.base.errors import UserError
from ottla.tables.values.schema import struct_type

_INT64 = range(-(2**63), 2**63)


def infer_schema(values: Iterable[bytes | None]) -> Any:
    """The Arrow struct type of the sample's objects; values that are none are passed over.

    Whole numbers are `bigint`, others `double`, texts `string` (also those that look like times).
    Fields of which nothing but null, `[]` and `{}` was seen are left out. Raises `UserError` for
    fields of two kinds, and when there was no object to learn from.
    """
    shape: Any = None
    for value in values:
        found = _object(value)
        if found is not None:
            shape = _merge(shape, _shape(found), "value")
    kind = _type(shape)
    if kind is None:
        raise UserError(
            "no schema can be inferred: none of the first values is a JSON object with something "
            "in it; give --schema"
        )
    return kind


def _object(value: bytes | None) -> dict[str, Any] | None:
    try:
        found = None if value is None else json.loads(value)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _shape(value: Any) -> Any:
    """`None`, a word, a list of the elements' shape, or a dict of the fields' shapes."""
    match value:
        case bool():
            return "boolean"
        case int():
            return "bigint" if value in _INT64 else "double"
        case float():
            return "double"
        case str():
            return "string"
        case list():
            shape: Any = None
            for one in value:
                shape = _merge(shape, _shape(one), "value[]")
            return [shape]
        case dict():
            return {name: _shape(one) for name, one in value.items()}
    return None


def _merge(one: Any, other: Any, place: str) -> Any:
    if one is None or other is None or one == other:
        return other if one is None else one
    if {str(one), str(other)} == {"bigint", "double"}:
        return "double"
    if isinstance(one, list) and isinstance(other, list):
        return [_merge(one[0], other[0], f"{place}[]")]
    if isinstance(one, dict) and isinstance(other, dict):
        names = {**one, **other}
        return {name: _merge(one.get(name), other.get(name), f"{place}.{name}") for name in names}
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
        case None:
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
        "double": pa.float64(),
        "string": pa.string(),
    }[shape]
