"""What Aiven's plug-in may keep in a segment's custom metadata: a message of tagged fields only.

Format page: docs/format/tier-objects.md.
"""

from typing import Final

from ottla.base.errors import OttlaError
from ottla.base.values import dataclass
from ottla.codec.primitives import append_tagged_field, read_tag
from ottla.codec.varint import (
    read_unsigned_varint,
    read_varlong,
    write_unsigned_varint,
    write_varlong,
)

REMOTE_SIZE: Final = 0
OBJECT_PREFIX: Final = 1
OBJECT_KEY: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomMetadata:
    """`remote_size` is that of all three objects, in bytes; `object_key` is without prefix and
    suffix. `None` for what was not written.
    """

    remote_size: int | None = None
    object_prefix: str | None = None
    object_key: str | None = None


def read_custom_metadata(content: bytes) -> CustomMetadata:
    """Raises `ValueError` for bytes that are no such message."""
    fields: dict[int, bytes] = {}
    try:
        count, position = read_unsigned_varint(content, 0)
        for _ in range(count):
            tag, start, position = read_tag(content, position)
            fields[tag] = content[start:position]
        size = fields.get(REMOTE_SIZE)
        return CustomMetadata(
            remote_size=None if size is None else read_varlong(size, 0)[0],
            object_prefix=_text(fields.get(OBJECT_PREFIX)),
            object_key=_text(fields.get(OBJECT_KEY)),
        )
    except (IndexError, OttlaError) as error:
        raise ValueError(f"not a message of tagged fields: {error}") from error


def custom_metadata_bytes(metadata: CustomMetadata) -> bytes:
    """The inverse of `read_custom_metadata`."""
    fields: dict[int, bytearray] = {}
    if metadata.remote_size is not None:
        write_varlong(fields.setdefault(REMOTE_SIZE, bytearray()), metadata.remote_size)
    for tag, text in ((OBJECT_PREFIX, metadata.object_prefix), (OBJECT_KEY, metadata.object_key)):
        if text is not None:
            encoded = text.encode()
            write_unsigned_varint(fields.setdefault(tag, bytearray()), len(encoded) + 1)
            fields[tag] += encoded
    out = bytearray()
    write_unsigned_varint(out, len(fields))
    for tag, content in fields.items():
        append_tagged_field(out, tag, content)
    return bytes(out)


def _text(field: bytes | None) -> str | None:
    """A compact string."""
    if field is None:
        return None
    size, start = read_unsigned_varint(field, 0)
    if start + size - 1 != len(field):
        raise ValueError("a string is cut short")
    return field[start:].decode()
