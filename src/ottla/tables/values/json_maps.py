"""Decodes maps in JSON values: objects whose names are keys, not columns.

Arrow's parser does not support maps. So each map is rewritten as a list of keys and values, which
the parser reads, and whose buffers are those of an Arrow map. In the same way times may be read as
text (`json_times`).
"""

from collections.abc import Callable
from typing import Any

from ottla.base.json_texts import read, write
from ottla.tables.values.json_times import as_times

Rewrite = Callable[[Any], Any]
_NO_MAP = True
"""Replaces a value that is not an object: Arrow rejects a boolean in place of a list."""


def has_maps(kind: Any) -> bool:
    return rewrite_of(kind) is not None


def read_type(kind: Any, *, times_as_text: bool = False) -> Any:
    """The type that Arrow's parser reads: with a list of structs in place of each map, and perhaps
    with a text in place of each time.
    """
    import pyarrow as pa
    import pyarrow.types as types

    def inner(one: Any) -> Any:
        return read_type(one, times_as_text=times_as_text)

    if types.is_struct(kind):
        return pa.struct([(field.name, inner(field.type)) for field in kind])
    if types.is_list(kind):
        return pa.list_(inner(kind.value_type))
    if types.is_map(kind):
        return pa.list_(pa.struct([("key", kind.key_type), ("value", inner(kind.item_type))]))
    return pa.string() if times_as_text and types.is_timestamp(kind) else kind


def rewriter(kind: Any) -> Callable[[list[str]], list[str]]:
    """Returns a function that rewrites texts of a struct type for its `read_type`.

    The function raises `ValueError` or `RecursionError` for invalid JSON.
    """
    found = rewrite_of(kind)
    assert found is not None
    rewrite = found
    return lambda texts: [write(rewrite(read(one))) for one in texts]


def rewrite_of(kind: Any, of_leaf: Callable[[Any], Rewrite | None] | None = None) -> Rewrite | None:
    """The rewrite of maps in values of a type as lists, or of all values of some types without
    fields (`of_leaf`), in which case maps stay; `None` for types without one.
    """
    import pyarrow.types as types

    if types.is_struct(kind):
        inner = {field.name: rewrite_of(field.type, of_leaf) for field in kind}
        concerned = {name: one for name, one in inner.items() if one is not None}
        return _in_struct(concerned) if concerned else None
    if types.is_list(kind):
        of_element = rewrite_of(kind.value_type, of_leaf)
        return None if of_element is None else _in_list(of_element)
    if types.is_map(kind):
        of_item = rewrite_of(kind.item_type, of_leaf)
        if of_leaf is None:
            return _in_map(of_item)
        return None if of_item is None else _in_members(of_item)
    return None if of_leaf is None else of_leaf(kind)


def _in_members(inner: Rewrite) -> Rewrite:
    def rewrite(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        return {name: inner(one) for name, one in value.items()}

    return rewrite


def _in_struct(members: dict[str, Rewrite]) -> Rewrite:
    def rewrite(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        return {name: members[name](one) if name in members else one for name, one in value.items()}

    return rewrite


def _in_list(inner: Rewrite) -> Rewrite:
    return lambda value: [inner(one) for one in value] if isinstance(value, list) else value


def _in_map(inner: Rewrite | None) -> Rewrite:
    def rewrite(value: Any) -> Any:
        if value is None:
            return None
        if not isinstance(value, dict):
            return _NO_MAP
        return [
            {"key": name, "value": one if inner is None else inner(one)}
            for name, one in value.items()
        ]

    return rewrite


def from_read(array: Any, kind: Any) -> Any:
    """Converts an array of a `read_type` of a type to that type, maps with the same buffers.

    Raises `ArrowInvalid` for a text that is no time.
    """
    import pyarrow as pa
    import pyarrow.types as types

    if array.type == kind:
        return array
    assert array.offset == 0
    if types.is_struct(kind):
        children = [from_read(array.field(number), one.type) for number, one in enumerate(kind)]
    elif types.is_list(kind):
        children = [from_read(array.values, kind.value_type)]
    elif types.is_map(kind):
        children = [from_read(array.values, pa.struct([kind.key_field, kind.item_field]))]
    else:
        return as_times(array, kind)
    buffers = array.buffers()[: 1 if types.is_struct(kind) else 2]
    return pa.Array.from_buffers(kind, len(array), buffers, array.null_count, 0, children)
