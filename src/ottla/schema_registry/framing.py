"""How a record names the schema it was written with: Confluent's wire format.

The id precedes the bytes, in a prefix of five bytes, or a header has the schema's GUID, and the
bytes stand alone.
"""

import struct
from collections.abc import Iterable, Mapping
from typing import Any, Final

PREFIX: Final = struct.Struct(
    ">b"  # magic byte, 0
    "i"  # id of the schema in the registry
)
assert PREFIX.size == 5

KEY_HEADER: Final = "__key_schema_id"
VALUE_HEADER: Final = "__value_schema_id"
_GUID: Final = struct.Struct(
    ">b"  # magic byte, 1
    "16s"  # GUID of the schema
)
assert _GUID.size == 17


def prefixed_id(data: bytes) -> int | None:
    """The id that the bytes begin with; `None` when they begin with no such prefix."""
    if len(data) < PREFIX.size or data[0] != 0:
        return None
    return int(PREFIX.unpack_from(data)[1])


def header_guid(
    headers: Iterable[Mapping[str, Any]] | None, name: str = VALUE_HEADER
) -> str | None:
    """The GUID that the last header of that name has; `None` when there is none.

    `headers`: mappings of `key` and `value`, as a column of headers has them.
    """
    found = None
    for header in headers or ():
        if header["key"] == name:
            found = header["value"]
    if found is None or len(found) != _GUID.size or found[0] != 1:
        return None
    from uuid import UUID

    return str(UUID(bytes=_GUID.unpack(found)[1]))
