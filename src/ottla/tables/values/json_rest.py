"""The members of a JSON value without a column, kept as JSON in an additional column.

The rest of an object is its members without a column, and the rests of those with one: of `{"id":
1, "x": 2, "who": {"name": "a", "age": 3}}` with the columns `id` and `who.name` it is
`{"x":2,"who":{"age":3}}`. In an array each element has its rest, or null.
The rest of a number or time is the whole of it if its column cannot have it (`json_leaves`).
"""

from collections.abc import Callable
from typing import Any

from ottla.base.json_texts import read, write
from ottla.tables.values.decoder import require
from ottla.tables.values.json_leaves import left_of

RESCUED_COLUMN = "_rescued"

Rest = Callable[[Any], Any]
"""Returns the rest of a parsed value; `None` if there is none."""


def rest_texts(kind: Any) -> Callable[[list[str]], list[str | None]]:
    """Returns a function from texts of valid values of a struct type to their rests."""
    rest = _rest_of(kind)
    assert rest is not None
    found = rest

    def texts(values: list[str]) -> list[str | None]:
        """Raises `ValueError` or `RecursionError` for values that are nested too deeply, and for
        objects that repeat a name, of which one value would be lost.
        """
        left = [found(read(one)) for one in values]
        return [None if one is None else write(one) for one in left]

    return texts


def lost_of(kind: Any) -> Rest | None:
    """A function that returns what the columns of a type lack of their own fields."""
    return _rest_of(kind, with_others=False)


def _rest_of(kind: Any, *, with_others: bool = True) -> Rest | None:
    """The rest function of a type; `None` for types that cover all values."""
    import pyarrow.types as types

    if types.is_struct(kind):
        inner_of = {one.name: _rest_of(one.type, with_others=with_others) for one in kind}
        if not with_others and not any(inner_of.values()):
            return None
        return _of_struct(inner_of, with_others=with_others)
    if types.is_list(kind):
        inner = _rest_of(kind.value_type, with_others=with_others)
        return None if inner is None else _of_list(inner)
    if types.is_map(kind):
        inner = _rest_of(kind.item_type, with_others=with_others)
        return None if inner is None else _of_map(inner)
    return left_of(kind)


def _of_struct(columns: dict[str, Rest | None], *, with_others: bool) -> Rest:
    def rest(value: Any) -> Any:
        if not isinstance(value, dict):
            return None
        found = {}
        for name, one in value.items():
            if name not in columns and with_others:
                found[name] = one
                continue
            inner = columns.get(name)
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
    """The struct type with the column of rests; raises `UserError` if it has one of that name."""
    import pyarrow as pa

    require(
        all(field.name.lower() != RESCUED_COLUMN for field in kind),
        f"the schema names {RESCUED_COLUMN}, which is the column of all other fields: leave "
        f"it out of the schema, or disable that column (--no-rescued)",
    )
    return pa.struct([*kind, (RESCUED_COLUMN, pa.string())])
