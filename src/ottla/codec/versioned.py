"""A message with its version in two bytes before it, as internal topics and group members keep it.

Kafka's counterpart: `MessageUtil.toVersionPrefixedByteBuffer`.
"""

from struct import Struct
from typing import TypeVar

from ottla.base.errors import ProtocolError
from ottla.base.files import Buffer
from ottla.codec.primitives import Output
from ottla.codec.schema import Message, reader, writer

VERSION = Struct(">h")
assert VERSION.size == 2

M = TypeVar("M", bound=Message)


def encode_versioned(message: Message, version: int) -> bytes:
    """The version and the message; raises `ApiError` when the version cannot carry it."""
    output = Output()
    output.data += VERSION.pack(version)
    writer(type(message), version)(message, output)
    assert not output.slices
    return bytes(output.data)


def version_of(buffer: Buffer) -> int:
    """The version in front; raises `ProtocolError` when the buffer is too short for one."""
    if len(buffer) < VERSION.size:
        raise ProtocolError(f"{len(buffer)} bytes, where a version takes {VERSION.size}")
    version: int = VERSION.unpack_from(buffer)[0]
    return version


def decode_versioned(message: type[M], buffer: Buffer, *, newer_is_newest: bool = False) -> M:
    """Reads a message of any known version; raises `ProtocolError` for everything else.

    With `newer_is_newest` an unknown later version is read as the newest known: fields are only
    ever added at the end there, and what is left over is not looked at.
    """
    version = version_of(buffer)
    if newer_is_newest:
        version = min(version, message.VERSIONS.last)
    if version not in message.VERSIONS:
        raise ProtocolError(f"{message.__name__} has no version {version}")
    value, _ = reader(message, version)(buffer, VERSION.size)
    return value
