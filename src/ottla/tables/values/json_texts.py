"""JSON texts that are read and written again without a number becoming another one."""

import json
from collections.abc import Callable
from json.encoder import encode_basestring
from typing import Any


class Number(str):
    """A number as it stands in the text: no digit of it is lost."""

    __slots__ = ()


def read(text: str) -> Any:
    """Raises `ValueError` for invalid JSON, and for an object with a repeated name."""
    return _reader(object_pairs_hook=_once)(text)


def read_last(text: str) -> Any:
    """As `read`; of members with the same name the last one."""
    return _reader()(text)


def _reader(**options: Any) -> Callable[[str], Any]:
    return json.JSONDecoder(
        parse_float=Number, parse_int=Number, parse_constant=refuse_constant, **options
    ).decode


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name is there twice")
    return found


def refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON number")


def write(value: Any) -> str:
    """The inverse of `read`, as short as JSON can be."""
    match value:
        case Number():
            return str(value)
        case str():
            return encode_basestring(value)
        case dict():
            members = (f"{encode_basestring(name)}:{write(one)}" for name, one in value.items())
            return "{" + ",".join(members) + "}"
        case list():
            return "[" + ",".join(map(write, value)) + "]"
    return json.dumps(value)
