"""Reads the files of Kafka 0.7, `my_topic_0/00000000000000000000.kafka`; offsets are positions.

Format page: docs/format/kafka-07.md. A crash may leave a torn entry at the end of a partition's
last file. Reading ends there; 0.7 truncated it at its next start. Kafka's counterparts:
`kafka.message.Message` and `kafka.log.Log` of 0.7.
"""

import posixpath
import struct
import zlib
from collections.abc import Iterator

from ottla.base.errors import CorruptionError, UserError
from ottla.base.files import Buffer, FileSystem
from ottla.base.partitions import TopicPartition
from ottla.base.patterns import lazy_pattern
from ottla.base.values import dataclass
from ottla.codec.compression import Compression, decompress
from ottla.codec.frames import CompressionError

LENGTH = struct.Struct(">i")  # of the message that follows
CRC = struct.Struct(">I")  # of the payload
assert (LENGTH.size, CRC.size) == (4, 4)

MAGIC_SIZES = {0: 1, 1: 2}
"""Bytes before the CRC by magic: the magic itself, and attributes from magic 1."""

CODEC_MASK = 0x03
CODECS = {0: Compression.NONE, 1: Compression.GZIP, 2: Compression.SNAPPY}

MAX_MESSAGE_SIZE = 256 << 20
READ_SIZE = 1 << 20

_DIRECTORY = lazy_pattern(r"(?P<topic>.+)_(?P<number>\d+)")
_FILE = lazy_pattern(r"(\d+)\.kafka")


@dataclass(frozen=True, slots=True, kw_only=True)
class OldMessage:
    """A message with its offset, which is a position.

    Messages of a compressed wrapper have the wrapper's position.
    """

    position: int
    next_position: int
    payload: bytes


def old_partitions(file_system: FileSystem, directory: str) -> list[TopicPartition]:
    """The partitions of 0.7 in a log directory, sorted; empty for a newer log directory."""
    found = []
    for name in file_system.list(directory):
        named = _DIRECTORY.fullmatch(name)
        status = file_system.status(posixpath.join(directory, name))
        if named is None or status is None or not status.is_directory:
            continue
        if any(_FILE.fullmatch(one) for one in file_system.list(posixpath.join(directory, name))):
            found.append(TopicPartition(named["topic"], int(named["number"])))
    return sorted(found)


def old_messages(
    file_system: FileSystem, directory: str, place: TopicPartition
) -> Iterator[OldMessage]:
    """All messages of a partition in order, compressed wrappers unpacked.

    Raises `CorruptionError` with file and position, and `UserError` if a file is missing.
    """
    where = posixpath.join(directory, f"{place.topic}_{place.partition}")
    files = sorted(
        (int(found[1]), name)
        for name in file_system.list(where)
        if (found := _FILE.fullmatch(name)) is not None
    )
    for index, (base, name) in enumerate(files):
        path = posixpath.join(where, name)
        is_last = index == len(files) - 1
        end = base
        for one in _messages(file_system, path, base, is_last=is_last):
            end = one.next_position
            yield one
        if not is_last and files[index + 1][0] != end:
            raise UserError(
                f"{path} ends at {end}, and the next file begins at {files[index + 1][0]}: a file "
                "is missing; put it back, or move what follows to a directory of its own"
            )


def _messages(
    file_system: FileSystem, path: str, base: int, *, is_last: bool
) -> Iterator[OldMessage]:
    file = file_system.open(path)
    try:
        size, at, start, window = file.size(), 0, 0, b""
        while at < size:
            if at + LENGTH.size > start + len(window):
                start, window = at, file.pread(READ_SIZE, at)
            if len(window) - (at - start) < LENGTH.size:
                break
            (length,) = LENGTH.unpack_from(window, at - start)
            if not 0 <= length <= MAX_MESSAGE_SIZE:
                raise CorruptionError(path, at, f"a message of {length} bytes")
            end = at + LENGTH.size + length
            if end > size:
                break
            if end > start + len(window):
                start, window = at, file.pread(max(READ_SIZE, end - at), at)
            message = window[at - start + LENGTH.size : end - start]
            for payload in _payloads(message, path, at):
                yield OldMessage(position=base + at, next_position=base + end, payload=payload)
            at = end
        if at < size and not is_last:
            raise CorruptionError(path, at, "a message is cut short before the next file begins")
    finally:
        file.close()


def _payloads(message: Buffer, path: str, at: int, *, is_inner: bool = False) -> Iterator[bytes]:
    """The payload of one message, or of all messages in a compressed wrapper."""
    head = MAGIC_SIZES.get(message[0], 0) if len(message) else 0
    if not head or len(message) < head + CRC.size:
        raise CorruptionError(path, at, "no message of magic 0 or 1")
    payload = bytes(message[head + CRC.size :])
    (crc,) = CRC.unpack_from(message, head)
    if zlib.crc32(payload) != crc:
        raise CorruptionError(
            path, at, f"CRC mismatch: header {crc:#010x}, computed {zlib.crc32(payload):#010x}"
        )
    codec = CODECS.get(message[1] & CODEC_MASK) if head == MAGIC_SIZES[1] else Compression.NONE
    if codec is Compression.NONE:
        yield payload
        return
    if codec is None or is_inner:
        raise CorruptionError(path, at, "an unknown codec, or a wrapper in a wrapper")
    try:
        inner = bytes(decompress(codec, payload))
    except CompressionError as error:
        raise CorruptionError(path, at, str(error)) from error
    position = 0
    while position < len(inner):
        if position + LENGTH.size > len(inner):
            raise CorruptionError(path, at, "the messages in a wrapper are cut short")
        (length,) = LENGTH.unpack_from(inner, position)
        position += LENGTH.size
        if not 0 < length <= len(inner) - position:
            raise CorruptionError(path, at, "the messages in a wrapper are cut short")
        yield from _payloads(inner[position : position + length], path, at, is_inner=True)
        position += length
