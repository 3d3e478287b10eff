"""Messages with a version of two bytes before them, as in internal topics and group metadata.

Kafka's counterpart: `MessageUtil.toVersionPrefixedByteBuffer`.
"""

from struct import Struct
from typing import TypeVar

from ottla.base.errors import ProtocolError
from ottla.base.files import Buffer
from ottla.base.turns import Turn
from ottla.codec.primitives import Output
from ottla.codec.schema import Message, reader, writer

VERSION = Struct(">h")
assert VERSION.size == 2

M = TypeVar("M", bound=Message)


def encode_versioned(message: Message, version: int, turn: Turn | None = None) -> bytes:
    """The version and the message, written in turns if `turn` is given.

    Raises `ApiError` if the version cannot carry a field.
    """
    output = Output()
    output.turn = turn
    output.data += VERSION.pack(version)
    writer(type(message), version)(message, output)
    assert not output.slices
    return bytes(output.data)


def version_of(buffer: Buffer) -> int:
    """The version at the start; raises `ProtocolError` if the buffer is too short."""
    if len(buffer) < VERSION.size:
        raise ProtocolError(f"{len(buffer)} bytes are too few for a version of {VERSION.size}")
    version: int = VERSION.unpack_from(buffer)[0]
    return version


def decode_versioned(message: type[M], buffer: Buffer, *, newer_is_newest: bool = False) -> M:
    """Reads a message of any known version; raises `ProtocolError` for anything else.

    With `newer_is_newest` a later version is read as the newest known one, for messages whose later
    versions only add fields at the end; the additional bytes are ignored.
    """
    version = version_of(buffer)
    if newer_is_newest:
        version = min(version, message.VERSIONS.last)
    if version not in message.VERSIONS:
        raise ProtocolError(f"{message.__name__} has no version {version}")
    value, _ = reader(message, version)(buffer, VERSION.size)
    return value
