"""The functions that compiled readers and writers call, and the types of fixed size.

The compilers (`schema_reader`, `schema_writer`) write the common cases inline; rare or long code is
a function here.
"""

import struct
from typing import Final

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.files import Buffer, FileSlice
from ottla.base.turns import Pace, Turn
from ottla.codec.varint import read_unsigned_varint, write_unsigned_varint

Records = Buffer | FileSlice | list[Buffer | FileSlice] | list[FileSlice]
"""Record batches to send: in memory, in a file, or a list of both."""

FIXED_FORMATS: Final = {
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "int64": "q",
    "float64": "d",
    "boolean": "?",
    "uuid": "16s",
}
"""The format characters of `struct` for Kafka's types of fixed size, all big-endian."""

FIXED_SIZES: Final = {kind: struct.calcsize(">" + letter) for kind, letter in FIXED_FORMATS.items()}

MAX_STRING_SIZE: Final = 0x7FFF
"""The longest string in bytes, as in Kafka, also with a compact length."""


class MalformedError(ValueError):
    """Bytes that are not a valid message; readers raise `ProtocolError` from it."""


class Output:
    """Bytes to be sent, and the positions at which slices of files are inserted.

    `slices` are pairs (position in `data`, slice): the file's bytes are sent before
    `data[position:]`. They are not read here, so that a socket can send them without a copy. `turn`
    is that of a long request, whose response is written in turns. `error_codes` are the non-zero
    codes in the messages written, to be counted (Kafka: `AbstractResponse.errorCounts`).
    """

    __slots__ = ("data", "error_codes", "slices", "slices_size", "turn")

    def __init__(self) -> None:
        self.data = bytearray()
        self.slices: list[tuple[int, FileSlice]] = []
        self.slices_size = 0
        self.turn: Turn | None = None
        self.error_codes: list[int] = []

    @property
    def size(self) -> int:
        """The number of bytes to be sent, with the slices."""
        return len(self.data) + self.slices_size

    def append_slice(self, piece: FileSlice) -> None:
        self.slices.append((len(self.data), piece))
        self.slices_size += piece.size

    def append_all(self, other: "Output") -> None:
        """Takes over the content of another output, which must not be used any more."""
        if not self.data:
            self.data, self.slices, self.slices_size = other.data, other.slices, other.slices_size
            return
        start = len(self.data)
        self.data += other.data
        self.slices += [(start + position, piece) for position, piece in other.slices]
        self.slices_size += other.slices_size

    def cut_back(self, data_size: int, slice_count: int) -> None:
        """Removes everything after an earlier state, when a message cannot be written."""
        self.error_codes.clear()
        del self.data[data_size:]
        for _, piece in self.slices[slice_count:]:
            self.slices_size -= piece.size
        del self.slices[slice_count:]

    def pieces(self) -> list[Buffer | FileSlice]:
        """What is to be sent, in its order."""
        found: list[Buffer | FileSlice] = []
        view, done = memoryview(self.data), 0
        for position, piece in self.slices:
            found += (view[done:position], piece)
            done = position
        return [*found, view[done:]]

    def read_all(self) -> bytes:
        """All bytes, with slices read from their files, for tests and small responses."""
        return b"".join(one.read() if isinstance(one, FileSlice) else one for one in self.pieces())


def skip_tagged_fields(buffer: Buffer, position: int, count: int, pace: Pace | None = None) -> int:
    """Skips unknown tagged fields (KIP-482); returns the position after them.

    `count` is the first byte of their count, already read; the rest is read here if it is longer.
    Raises `MalformedError`.
    """
    if count > 0x7F:
        count, position = read_unsigned_varint(buffer, position - 1)
    if 2 * count > len(buffer) - position:
        raise MalformedError("more tagged fields than bytes are left")
    for _ in range(count) if pace is None else pace.elements(count):
        _, position, end = read_tag(buffer, position)
        position = end
    return position


def read_tag(buffer: Buffer, position: int) -> tuple[int, int, int]:
    """The tag of the field at `position`, and the start and end of its content.

    Raises `MalformedError`.
    """
    tag = buffer[position]
    position += 1
    if tag > 0x7F:
        tag, position = read_unsigned_varint(buffer, position - 1)
    size = buffer[position]
    position += 1
    if size > 0x7F:
        size, position = read_unsigned_varint(buffer, position - 1)
    end = position + size
    if end > len(buffer):
        raise MalformedError(f"tagged field {tag} is cut short")
    return tag, position, end


def append_tagged_field(data: bytearray, tag: int, content: bytearray) -> None:
    write_unsigned_varint(data, tag)
    write_unsigned_varint(data, len(content))
    data += content


def encode_error_text(text: str) -> bytes:
    """The bytes of an error message, shortened to the largest size of a string."""
    # The text may quote requests and file names, which may have characters that are not UTF-8.
    content = text.encode(errors="replace")
    if len(content) <= MAX_STRING_SIZE:
        return content
    return content[: MAX_STRING_SIZE - 3].decode(errors="ignore").encode() + b"..."


def records_size(records: Records) -> int:
    """The size in bytes of a `records` field, without its length."""
    if type(records) is FileSlice:
        return records.size
    if type(records) is list:
        return sum(map(records_size, records))
    return len(records)  # type: ignore[arg-type]


def append_records(output: Output, records: Records) -> None:
    if type(records) is FileSlice:
        output.append_slice(records)
    elif type(records) is list:
        for piece in records:
            append_records(output, piece)
    else:
        output.data += records  # type: ignore[arg-type]


def unsupported(field: str, version: int) -> ApiError:
    """The error for a value that a version of a message cannot carry."""
    return ApiError(ErrorCode.UNSUPPORTED_VERSION, f"version {version} cannot carry {field}")
