"""Finds what is wrong with a JSON value; used only for batches that Arrow rejected.

Detects what Python's parser and the types of values show, at some hundred thousand values per
second; other faults (an invalid time, a repeated name, too many digits) are left to Arrow, which
has the final say on every value.
"""

import json
from collections.abc import Callable
from typing import Any

from ottla.base.json_texts import read_last, refuse_constant

Check = Callable[[Any, str], str | None]
"""Takes a parsed value and its place; returns what is wrong with it."""

_RANGES = {32: range(-(2**31), 2**31), 64: range(-(2**63), 2**63)}
_MANY_DIGITS = 100


class _LongInteger(int):
    """An integer of more digits than any column has, which Python may refuse to convert."""

    digit_count: int

    @staticmethod
    def of(text: str) -> int:
        if len(text) <= _MANY_DIGITS:
            return int(text)
        found = _LongInteger(text[:_MANY_DIGITS])
        found.digit_count = len(text.removeprefix("-"))
        return found


def json_fault(text: str, check: Check) -> str | None:
    """Why the text is not a JSON object of the schema of `check`; `None` if Arrow must decide."""
    try:
        value = json.loads(text, parse_constant=refuse_constant, parse_int=_LongInteger.of)
        return check(value, "value")
    except RecursionError:
        return None
    except ValueError as error:
        return f"it is not one JSON object: {error}"


def is_json(text: str) -> bool:
    """Whether the text is one JSON value that is not nested too deeply for Python."""
    try:
        read_last(text)
    except (ValueError, RecursionError):
        return False
    return True


def check_of(kind: Any) -> Check:
    """A check for values of an Arrow type."""
    import pyarrow.types as types

    if types.is_struct(kind):
        return _struct_check({field.name: check_of(field.type) for field in kind})
    if types.is_list(kind):
        return _list_check(check_of(kind.value_type))
    if types.is_map(kind):
        return _map_check(check_of(kind.item_type))
    if types.is_integer(kind):
        return _int_check(_RANGES[kind.bit_width])
    if types.is_boolean(kind):
        return _kind_check("boolean", bool)
    if types.is_floating(kind):
        return _kind_check("number", int, float)
    if types.is_decimal(kind):
        # Arrow accepts numbers, and strings with numbers.
        return _kind_check("number", int, float, str)
    return _kind_check("string", str)


def _struct_check(checks: dict[str, Check]) -> Check:
    def check(value: Any, place: str) -> str | None:
        if not isinstance(value, dict):
            return _other("object", value, place)
        for name, inner in checks.items():
            found = value.get(name)
            fault = None if found is None else inner(found, f"{place}.{name}")
            if fault is not None:
                return fault
        return None

    return check


def _list_check(inner: Check) -> Check:
    def check(value: Any, place: str) -> str | None:
        if not isinstance(value, list):
            return _other("array", value, place)
        faults = (inner(one, f"{place}[]") for one in value if one is not None)
        return next((fault for fault in faults if fault is not None), None)

    return check


def _map_check(inner: Check) -> Check:
    def check(value: Any, place: str) -> str | None:
        if not isinstance(value, dict):
            return _other("object", value, place)
        found = (inner(one, f"{place}{{}}") for one in value.values() if one is not None)
        return next((fault for fault in found if fault is not None), None)

    return check


def _int_check(bounds: range) -> Check:
    def check(value: Any, place: str) -> str | None:
        if not isinstance(value, int) or isinstance(value, bool):
            return _other("whole number", value, place)
        if isinstance(value, _LongInteger):
            return f"{place} is a number of {value.digit_count} digits, which its type cannot hold"
        return None if value in bounds else f"{place} is {value}, which its type cannot hold"

    return check


def _kind_check(word: str, *kinds: type) -> Check:
    def check(value: Any, place: str) -> str | None:
        is_sound = isinstance(value, kinds) and (bool in kinds or not isinstance(value, bool))
        return None if is_sound else _other(word, value, place)

    return check


def _other(word: str, value: Any, place: str) -> str:
    return f"{place} is {json.dumps(value):.40}, not of type {word}"
