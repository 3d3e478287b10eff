"""The ids of columns and nested fields, by which Iceberg readers find them in files.

Names are Iceberg's paths: `value.at`, `headers.element.key`, `tags.value` in a map.
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

_ID = b"PARQUET:field_id"
"""Arrow's key for a field id, in the metadata of a field."""


def with_field_ids(schema: "pa.Schema", ids: Mapping[str, int]) -> "pa.Schema":
    """The schema with exactly these ids: copied files may have others."""
    import pyarrow as pa

    return pa.schema([_numbered(field, field.name, ids) for field in schema])


def struct_paths(fields: Any, place: str = "") -> Iterator[str]:
    """The paths of columns and of the fields of structs in them, outer ones first."""
    import pyarrow.types as types

    for one in fields:
        yield f"{place}{one.name}"
        if types.is_struct(one.type):
            yield from struct_paths(one.type, f"{place}{one.name}.")


def _numbered(field: Any, path: str, ids: Mapping[str, int]) -> Any:
    number = ids.get(path)
    named = field.with_type(_numbered_type(field.type, path, ids))
    return named.with_metadata(None if number is None else {_ID: str(number).encode()})


def _numbered_type(kind: Any, path: str, ids: Mapping[str, int]) -> Any:
    import pyarrow as pa
    import pyarrow.types as types

    if types.is_struct(kind):
        return pa.struct([_numbered(one, f"{path}.{one.name}", ids) for one in kind])
    if types.is_list(kind):
        return pa.list_(_numbered(kind.value_field, f"{path}.element", ids))
    if types.is_map(kind):
        key = _numbered(kind.key_field, f"{path}.key", ids)
        return pa.map_(key, _numbered(kind.item_field, f"{path}.value", ids))
    return kind
