"""Confluent's wire format, in which a record names the schema with which it was written.

Either the id precedes the value, in a prefix of five bytes, or a header has the schema's GUID and
the value has no prefix.
"""

import struct
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

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

GUID_SIZE: Final = _GUID.size
_MOST_NESTED: Final = 100
FIRST_MESSAGE: Final = b"\0"
"""The path to the first message type of a Protobuf schema, in its short form."""


def prefixed_id(data: bytes) -> int | None:
    """The schema id in the prefix; `None` without a prefix."""
    if len(data) < PREFIX.size or data[0] != 0:
        return None
    return int(PREFIX.unpack_from(data)[1])


def schema_header(headers: Iterable[Mapping[str, Any]] | None, name: str) -> bytes | None:
    """The value of the last header of that name.

    `headers` are mappings of `key` and `value`, as in a column of headers.
    """
    found: bytes | None = None
    for header in headers or ():
        if header["key"] == name:
            found = header["value"]
    return found


def schema_headers(headers: Any, name: str, count: int) -> list[bytes | None]:
    """The schema header of each record; `headers` is their column, or `None`."""
    if headers is None:
        return [None] * count
    return [schema_header(one, name) for one in headers.to_pylist()]


class Framed(NamedTuple):
    """The id or GUID of a value's schema, and the start of the value itself."""

    schema: int | str
    start: int


def framed(value: bytes, header: bytes | None = None) -> Framed | None:
    """The framing of a value or of its header, which takes precedence; `None` without framing.

    A GUID may also precede the value, in the same form as in the header.
    """
    guid = None if header is None else guid_in(header)
    if guid is not None:
        return Framed(guid, 0)
    found = prefixed_id(value)
    if found is not None:
        return Framed(found, PREFIX.size)
    guid = guid_in(value)
    return None if guid is None else Framed(guid, GUID_SIZE)


class FramedMessage(NamedTuple):
    """Like `Framed`, with the path to the value's message type in its schema."""

    schema: int | str
    indexes: tuple[int, ...]
    start: int


def framed_message(value: bytes, header: bytes | None = None) -> FramedMessage | None:
    """The framing of a Protobuf value; in a header, the message's path follows the GUID."""
    found = framed(value, header)
    if found is None:
        return None
    if found.start == 0 and header is not None:
        path = message_indexes(header, GUID_SIZE)
        return None if path is None else FramedMessage(found.schema, path[0], 0)
    path = message_indexes(value, found.start)
    return None if path is None else FramedMessage(found.schema, path[0], path[1])


def guid_in(value: bytes) -> str | None:
    """The GUID at the beginning of such a header or value; `None` without one."""
    if len(value) < _GUID.size or value[0] != 1:
        return None
    from uuid import UUID

    return str(UUID(bytes=_GUID.unpack_from(value)[1]))


def message_indexes(data: bytes, start: int = PREFIX.size) -> tuple[tuple[int, ...], int] | None:
    """The path to a Protobuf value's message type, and the end of the path; `None` if invalid.

    A count and that many indexes, each a zigzag varint; a single 0 is the first message.
    """
    count, position = _varint(data, start)
    if count == 0:
        return (0,), position
    if not 0 < count <= _MOST_NESTED:
        return None
    found = []
    for _ in range(count):
        index, position = _varint(data, position)
        if index < 0:
            return None
        found.append(index)
    return tuple(found), position


def _varint(data: bytes, position: int) -> tuple[int, int]:
    """A zigzag varint and its end; -1 if it is invalid."""
    found = 0
    for shift in range(0, 35, 7):
        if position >= len(data):
            break
        byte = data[position]
        position += 1
        found |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (found >> 1) ^ -(found & 1), position
    return -1, position
