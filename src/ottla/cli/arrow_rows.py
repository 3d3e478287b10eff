"""Rows of Arrow as Python's values, whatever times they have."""

from typing import Any


def python_rows(batch: Any) -> list[dict[str, Any]]:
    """Like `to_pylist`; times that Python's types cannot have, such as those outside of the years 1
    to 9999 and those with nanoseconds, are text: RFC 3339's, in which other years have a sign.
    """
    if not any(map(_has_nanoseconds, batch.schema.types)):
        try:
            rows: list[dict[str, Any]] = batch.to_pylist()
            return rows
        except (OverflowError, ValueError):
            pass
    columns = [[_value(one) for one in batch.column(name)] for name in batch.schema.names]
    return [dict(zip(batch.schema.names, row, strict=True)) for row in zip(*columns, strict=True)]


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
    if types.is_list(kind) or types.is_large_list(kind):
        return [_value(one) for one in scalar.values]
    if types.is_timestamp(kind) or types.is_date(kind):
        return _time(scalar, kind)
    return str(scalar.value) if getattr(kind, "unit", "") == "ns" else scalar.as_py()


def _time(scalar: Any, kind: Any) -> Any:
    import numpy as np
    import pyarrow.types as types

    unit: Any = "D" if types.is_date32(kind) else getattr(kind, "unit", "ms")
    if unit != "ns":
        try:
            return scalar.as_py()
        except (OverflowError, ValueError):
            pass
    text = str(np.datetime64(scalar.value, unit))
    year = text.lstrip("-").partition("-")[0]
    sign = "+" if len(year) > 4 and text[0] != "-" else ""
    return f"{sign}{text}Z" if getattr(kind, "tz", None) else f"{sign}{text}"
