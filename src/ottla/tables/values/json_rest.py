"""The members of a JSON value without a column, kept as JSON beside the columns.

The rest of an object is its other members, and of those that are columns what is left in turn: of
`{"id": 1, "x": 2, "who": {"name": "a", "age": 3}}` with the columns `id` and `who.name` it is
`{"x":2,"who":{"age":3}}`. In an array each element has its rest, or null.
"""

from collections.abc import Callable
from typing import Any

from ottla.tables.values.decoder import require
from ottla.tables.values.json_texts import read_last, write

RESCUED_COLUMN = "_rescued"

Rest = Callable[[Any], Any]
"""From a parsed value to its rest; `None` for none."""


def rest_texts(kind: Any) -> Callable[[list[str]], list[str | None]]:
    """For texts of sound values of a struct type, the text of what is left of each."""
    rest = _rest_of(kind)
    assert rest is not None
    found = rest

    def texts(values: list[str]) -> list[str | None]:
        """Raises `ValueError` or `RecursionError` for what is nested too deep to be written."""
        left = [found(read_last(one)) for one in values]
        return [None if one is None else write(one) for one in left]

    return texts


def _rest_of(kind: Any) -> Rest | None:
    """`None` for types that name all that a value has."""
    import pyarrow.types as types

    if types.is_struct(kind):
        return _of_struct({field.name: _rest_of(field.type) for field in kind})
    if types.is_list(kind):
        inner = _rest_of(kind.value_type)
        return None if inner is None else _of_list(inner)
    if types.is_map(kind):
        inner = _rest_of(kind.item_type)
        return None if inner is None else _of_map(inner)
    return None


def _of_struct(columns: dict[str, Rest | None]) -> Rest:
    def rest(value: Any) -> Any:
        if not isinstance(value, dict):
            return None
        found = {}
        for name, one in value.items():
            if name not in columns:
                found[name] = one
                continue
            inner = columns[name]
            left = None if inner is None else inner(one)
            if left is not None:
                found[name] = left
        return found or None

    return rest


def _of_list(inner: Rest) -> Rest:
    def rest(value: Any) -> Any:
        found = [inner(one) for one in value] if isinstance(value, list) else []
        return found if any(one is not None for one in found) else None

    return rest


def _of_map(inner: Rest) -> Rest:
    def rest(value: Any) -> Any:
        members = value.items() if isinstance(value, dict) else ()
        left = ((name, inner(one)) for name, one in members)
        return {name: one for name, one in left if one is not None} or None

    return rest


def with_rescued(kind: Any) -> Any:
    """A struct type with the column of the rest; raises `UserError` when it is there already."""
    import pyarrow as pa

    require(
        all(field.name.lower() != RESCUED_COLUMN for field in kind),
        f"the schema names {RESCUED_COLUMN}, the column that keeps what it does not name: leave "
        f"it out, or do without that column (--no-rescued)",
    )
    return pa.struct([*kind, (RESCUED_COLUMN, pa.string())])
