"""Rows of Arrow as Python's values, whatever times they have."""

from collections.abc import Callable, Iterable
from typing import Any

from ottla.base.errors import UserError

Shown = Callable[[Any], Any]


def python_rows(batch: Any) -> list[dict[str, Any]]:
    """Like `to_pylist`; times that Python's types cannot have, such as those outside of the years 1
    to 9999 and those with nanoseconds, are text: RFC 3339's, in which other years have a sign.

    A map is a `dict` if its keys are strings, otherwise a list of `{"key": ..., "value": ...}`.
    Raises `UserError` for a map with a string key twice.
    """
    rows = _rows(batch)
    for field in batch.schema:
        shown = _with_maps(field.type, field.name)
        if shown is not None:
            for row in rows:
                row[field.name] = shown(row[field.name])
    return rows


def _rows(batch: Any) -> list[dict[str, Any]]:
    if not any(map(_has_nanoseconds, batch.schema.types)):
        try:
            rows: list[dict[str, Any]] = batch.to_pylist()
            return rows
        except (OverflowError, ValueError):
            pass
    names = batch.schema.names
    columns = [[_value(one) for one in column] for column in batch.columns]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def _with_maps(kind: Any, place: str) -> Shown | None:
    """What turns the pairs of maps within values of a type into objects; `None` without a map."""
    import pyarrow.types as types

    if types.is_map(kind):
        key, item = (_with_maps(one, place) or _same for one in (kind.key_type, kind.item_type))
        if types.is_string(kind.key_type) or types.is_large_string(kind.key_type):
            return _or_null(lambda pairs: _object(pairs, item, place))
        return _or_null(lambda pairs: [{"key": key(one), "value": item(two)} for one, two in pairs])
    if types.is_struct(kind):
        inner = {field.name: _with_maps(field.type, f"{place}.{field.name}") for field in kind}
        if not any(inner.values()):
            return None
        of_members = {name: one or _same for name, one in inner.items()}
        return _or_null(lambda found: {name: of_members[name](one) for name, one in found.items()})
    if _is_list(kind):
        of_element = _with_maps(kind.value_type, f"{place}[]")
        if of_element is not None:
            return _or_null(lambda found: [of_element(one) for one in found])
    return None


def check_names(fields: Iterable[Any], place: str = "") -> None:
    """Raises `UserError` for two columns, or fields within one, of the same name."""
    fields = list(fields)
    names = [field.name for field in fields]
    for field in fields:
        if names.count(field.name) > 1:
            raise UserError(f"there are two columns {place}{field.name!r}; rename one")
        kind = field.type
        within = (kind.field(number) for number in range(kind.num_fields))
        check_names(within, f"{place}{field.name}.")


def _is_list(kind: Any) -> bool:
    import pyarrow.types as types

    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def _object(pairs: list[tuple[str, Any]], item: Shown, place: str) -> dict[str, Any]:
    found = {key: item(value) for key, value in pairs}
    if len(found) != len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise UserError(f"the map {place} has the key {twice!r} twice, which no JSON object has")
    return found


def _or_null(shown: Shown) -> Shown:
    return lambda value: None if value is None else shown(value)


def _same(value: Any) -> Any:
    return value


def _has_nanoseconds(kind: Any) -> bool:
    inner = (kind.field(index).type for index in range(kind.num_fields))
    return getattr(kind, "unit", "") == "ns" or any(map(_has_nanoseconds, inner))


def _value(scalar: Any) -> Any:
    import pyarrow.types as types

    kind = scalar.type
    if not scalar.is_valid:
        return None
    if types.is_struct(kind):
        return {name: _value(one) for name, one in scalar.items()}
    if types.is_map(kind):
        return [(_value(one["key"]), _value(one["value"])) for one in scalar.values]
    if _is_list(kind):
        return [_value(one) for one in scalar.values]
    if types.is_timestamp(kind) or types.is_date(kind):
        return _time(scalar, kind)
    if types.is_time64(kind) and kind.unit == "ns":
        return str(_date_time(scalar.value, "ns")).partition("T")[2]
    return str(scalar.value) if getattr(kind, "unit", "") == "ns" else scalar.as_py()


def _date_time(number: int, unit: Any) -> Any:
    import numpy as np

    return np.datetime64(number, unit)


def _time(scalar: Any, kind: Any) -> Any:
    import pyarrow.types as types

    unit: Any = "D" if types.is_date32(kind) else getattr(kind, "unit", "ms")
    if unit != "ns":
        try:
            return scalar.as_py()
        except (OverflowError, ValueError):
            pass
    text = str(_date_time(scalar.value, unit))
    year = text.lstrip("-").partition("-")[0]
    sign = "+" if len(year) > 4 and text[0] != "-" else ""
    return f"{sign}{text}Z" if getattr(kind, "tz", None) else f"{sign}{text}"
