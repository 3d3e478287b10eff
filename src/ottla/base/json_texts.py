"""Reads and writes JSON without changing numbers."""

import json
from collections.abc import Callable
from json.encoder import encode_basestring
from typing import Any


class Number(str):
    """A number as it is written in the text, with all digits."""

    __slots__ = ()


def read(text: str) -> Any:
    """Parses JSON; raises `ValueError` if it is invalid or an object repeats a name."""
    return _reader(object_pairs_hook=_once)(text)


def read_last(text: str) -> Any:
    """Like `read`, but of members with the same name the last is used."""
    return _reader()(text)


def _reader(**options: Any) -> Callable[[str], Any]:
    return json.JSONDecoder(
        parse_float=Number, parse_int=Number, parse_constant=refuse_constant, **options
    ).decode


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("an object repeats a name")
    return found


def refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")


def write(value: Any) -> str:
    """The inverse of `read`, in the shortest form."""
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
