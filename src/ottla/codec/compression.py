"""The four codecs of record batches, bounded so that a small batch cannot fill the memory.

gzip and zstd are as their libraries write them. Snappy is framed as xerial's Java library does;
raw snappy, which some clients send, is read too. LZ4 is the frame format; the wrong header
checksum of message formats v0 and v1 (KAFKA-3160) is read and written on request.
Kafka's counterpart: `org.apache.kafka.common.compress`.
"""

import struct
import zlib
from enum import IntEnum
from typing import Any

from ottla.base.errors import OttlaError
from ottla.base.files import Buffer


class Compression(IntEnum):
    """The codec numbers in a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4

    @property
    def kafka_name(self) -> str:
        return self.name.lower()


class CompressionError(OttlaError):
    """Bytes that the codec cannot have written, or more of them than allowed."""


DEFAULT_LIMIT = 256 * 1024 * 1024
"""What one batch may grow to: no client makes batches near this size."""

XERIAL_MAGIC = b"\x82SNAPPY\x00"
XERIAL_HEADER = XERIAL_MAGIC + struct.pack(">ii", 1, 1)
XERIAL_BLOCK_SIZE = 32 * 1024


def compress(codec: Compression, data: Buffer, level: int | None = None) -> Buffer:
    """The compressed bytes; `level` is the codec's own scale, its default when `None`."""
    match codec:
        case Compression.NONE:
            return data
        case Compression.GZIP:
            return _gzip(data, -1 if level is None else level)
        case Compression.SNAPPY:
            return _snappy(data)
        case Compression.LZ4:
            return _lz4(data, level)
        case Compression.ZSTD:
            return _view(_cramjam().zstd.compress(data, level=3 if level is None else level))


def decompress(codec: Compression, data: Buffer, limit: int = DEFAULT_LIMIT) -> Buffer:
    """The plain bytes. Raises `CompressionError` for garbage and beyond `limit` bytes."""
    match codec:
        case Compression.NONE:
            return data
        case Compression.GZIP:
            return _gunzip(data, limit)
        case Compression.SNAPPY:
            return _unsnappy(data, limit)
        case Compression.LZ4:
            return _unlz4(data, limit)
        case Compression.ZSTD:
            return _unpack(_cramjam().zstd, data, limit)


def _cramjam() -> Any:
    import cramjam

    return cramjam


def _view(buffer: Any) -> memoryview:
    return memoryview(buffer)


def _too_large(limit: int) -> CompressionError:
    return CompressionError(f"a batch unpacks to more than {limit} bytes")


def _gzip(data: Buffer, level: int) -> bytes:
    packer = zlib.compressobj(level, zlib.DEFLATED, 31)
    return packer.compress(data) + packer.flush()


def _gunzip(data: Buffer, limit: int) -> bytes:
    unpacker = zlib.decompressobj(47)
    try:
        plain = unpacker.decompress(data, limit + 1)
    except zlib.error as error:
        raise CompressionError(f"gzip: {error}") from error
    if len(plain) > limit:
        raise _too_large(limit)
    if not unpacker.eof:
        raise CompressionError("gzip: the data are cut short")
    return plain


def _snappy(data: Buffer) -> bytes:
    raw = _cramjam().snappy.compress_raw
    view = memoryview(data)
    out = bytearray(XERIAL_HEADER)
    for start in range(0, len(view), XERIAL_BLOCK_SIZE):
        block = bytes(raw(view[start : start + XERIAL_BLOCK_SIZE]))
        out += struct.pack(">i", len(block))
        out += block
    return bytes(out)


def _unsnappy(data: Buffer, limit: int) -> bytes:
    view = memoryview(data)
    if bytes(view[:8]) != XERIAL_MAGIC:
        return _unsnappy_raw(view, limit)
    out = bytearray()
    position = len(XERIAL_HEADER)
    while position < len(view):
        if position + 4 > len(view):
            raise CompressionError("snappy: a block's size is cut short")
        (size,) = struct.unpack_from(">i", view, position)
        position += 4
        if size < 0 or position + size > len(view):
            raise CompressionError("snappy: a block is cut short")
        out += _unsnappy_raw(view[position : position + size], limit - len(out))
        position += size
    return bytes(out)


def _unsnappy_raw(data: memoryview, limit: int) -> bytes:
    snappy = _cramjam().snappy
    try:
        if snappy.decompress_raw_len(data) > limit:
            raise _too_large(limit)
        return bytes(snappy.decompress_raw(data))
    except _cramjam().DecompressionError as error:
        raise CompressionError(f"snappy: {error}") from error


LZ4_MAGIC = 0x184D2204
LZ4_DESCRIPTOR = struct.Struct("<IBB")  # magic, flags, block size
LZ4_HAS_CONTENT_SIZE = 0x08


def _lz4(data: Buffer, level: int | None) -> Buffer:
    return _view(_cramjam().lz4.compress(data, level=0 if level is None else level))


def _unlz4(data: Buffer, limit: int) -> Buffer:
    return _unpack(_cramjam().lz4, with_right_lz4_checksum(data), limit)


def with_right_lz4_checksum(data: Buffer) -> Buffer:
    """The frame with the header checksum that the format demands (KAFKA-3160).

    Old clients computed it over the magic as well; their frames come back changed in one byte.
    """
    size = _lz4_descriptor_size(data)
    right = _lz4_checksum(bytes(data[4 : 4 + size]))
    if data[4 + size] == right:
        return data
    if data[4 + size] != _lz4_checksum(bytes(data[: 4 + size])):
        raise CompressionError("lz4: the frame header's checksum is wrong")
    mended = bytearray(data)
    mended[4 + size] = right
    return mended


def with_old_lz4_checksum(data: Buffer) -> bytes:
    """The frame as message formats v0 and v1 have it."""
    size = _lz4_descriptor_size(data)
    changed = bytearray(data)
    changed[4 + size] = _lz4_checksum(bytes(data[: 4 + size]))
    return bytes(changed)


def _lz4_descriptor_size(data: Buffer) -> int:
    if len(data) < 7 or LZ4_DESCRIPTOR.unpack_from(data)[0] != LZ4_MAGIC:
        raise CompressionError("lz4: the data do not begin with a frame")
    size = 10 if data[4] & LZ4_HAS_CONTENT_SIZE else 2
    if len(data) <= 4 + size:
        raise CompressionError("lz4: the frame header is cut short")
    return size


def _lz4_checksum(header: bytes) -> int:
    return (xxhash32(header) >> 8) & 0xFF


def xxhash32(data: bytes) -> int:
    """xxHash-32 with seed 0 of fewer than 16 bytes, as an LZ4 frame header needs."""
    assert len(data) < 16
    mask = 0xFFFFFFFF
    value = (374761393 + len(data)) & mask
    position = 0
    while position + 4 <= len(data):
        word = int.from_bytes(data[position : position + 4], "little")
        value = (value + word * 3266489917) & mask
        value = (((value << 17) | (value >> 15)) & mask) * 668265263 & mask
        position += 4
    for byte in data[position:]:
        value = (value + byte * 374761393) & mask
        value = (((value << 11) | (value >> 21)) & mask) * 2654435761 & mask
    value = ((value ^ (value >> 15)) * 2246822519) & mask
    value = ((value ^ (value >> 13)) * 3266489917) & mask
    return value ^ (value >> 16)


OUTPUT_TOO_SMALL = "failed to write whole buffer"


def _unpack(module: Any, data: Buffer, limit: int) -> Buffer:
    """Unpacks into a buffer that grows to `limit` and no further: a bomb finds no room.

    The frames seldom say how long their content is, so the first size is a guess.
    """
    size = min(limit, max(64 * 1024, 4 * len(data)))
    while True:
        plain = bytearray(size)
        try:
            return memoryview(plain)[: module.decompress_into(data, plain)]
        except _cramjam().DecompressionError as error:
            if str(error) != OUTPUT_TOO_SMALL:
                raise CompressionError(str(error)) from error
        if size >= limit:
            raise _too_large(limit)
        size = min(limit, 4 * size)
