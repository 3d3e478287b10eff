"""The frames of compressed records, as Kafka's readers take them.

Libraries of compression read more than Kafka's record layer does, and less: a broker must refuse
what no Java client can read, and read what they can. The functions find the parts that Kafka reads,
and a library decompresses them. Kafka's counterparts: `Lz4BlockInputStream`, and the streams of
Java and of the libraries that `GzipCompression`, `SnappyCompression` and `ZstdCompression` use.
"""

import struct
import zlib
from collections.abc import Iterator
from functools import lru_cache

from ottla.base.errors import OttlaError
from ottla.base.files import Buffer
from ottla.codec.lz4_blocks import CUT_SHORT, TOO_LARGE, end_of_blocks


class CompressionError(OttlaError):
    """Data that is not valid for its codec, or decompresses to more bytes than allowed."""


# gzip (RFC 1952)

GZIP_START = struct.Struct("<HBBIBB")  # magic, method, flags, time, level, operating system
GZIP_MAGIC = 0x8B1F
GZIP_DEFLATE = 8
GZIP_HAS_CHECKSUM, GZIP_HAS_EXTRA, GZIP_HAS_NAME, GZIP_HAS_COMMENT = 2, 4, 8, 16
GZIP_FLAGS_POSITION = 3
GZIP_RESERVED = 0xE0
GZIP_PLAIN_START = GZIP_START.pack(GZIP_MAGIC, GZIP_DEFLATE, 0, 0, 0, 0xFF)
GZIP_LEAST_SIZE = 18
"""Java looks for another member only in more bytes than these: none is smaller."""

GZIP_BITS = 31
"""The `wbits` of zlib for members of gzip."""


def gzip_member(data: Buffer) -> Buffer:
    """Data that begin with a member, as zlib reads them; raises `CompressionError`.

    Java ignores the reserved flags, which zlib refuses.
    """
    if len(data) > GZIP_FLAGS_POSITION and data[GZIP_FLAGS_POSITION] & GZIP_RESERVED:
        with memoryview(data) as view, view[_gzip_header_end(data) :] as rest:
            return GZIP_PLAIN_START + rest
    return data


def _gzip_header_end(data: Buffer) -> int:
    if len(data) < GZIP_START.size:
        raise CompressionError("gzip: the header is cut short")
    magic, method, flags, *_ = GZIP_START.unpack_from(data)
    if magic != GZIP_MAGIC or method != GZIP_DEFLATE:
        raise CompressionError("gzip: the data does not begin with a member")
    position = GZIP_START.size
    if flags & (GZIP_HAS_CHECKSUM | GZIP_HAS_EXTRA | GZIP_HAS_NAME | GZIP_HAS_COMMENT):
        return _gzip_fields_end(bytes(data), flags, position)
    return position


def _gzip_fields_end(data: bytes, flags: int, position: int) -> int:
    if flags & GZIP_HAS_EXTRA:
        position += 2 + int.from_bytes(data[position : position + 2], "little")
    for flag in (GZIP_HAS_NAME, GZIP_HAS_COMMENT):
        if flags & flag:
            position = data.find(0, position) + 1 or len(data) + 1
    end = position + (2 if flags & GZIP_HAS_CHECKSUM else 0)
    if end > len(data):
        raise CompressionError("gzip: the header is cut short")
    checksum = zlib.crc32(data[:position]) & 0xFFFF
    if end > position and checksum != int.from_bytes(data[position:end], "little"):
        raise CompressionError("gzip: the header's checksum is wrong")
    return end


def next_gzip_member(rest: bytes) -> Buffer | None:
    """What follows a member, as `gzip_member`; `None` if it is not another.

    What is not the header of another member ends the data, as in `GZIPInputStream`.
    """
    if len(rest) <= GZIP_LEAST_SIZE:
        return None
    try:
        _gzip_header_end(rest)
    except CompressionError:
        return None
    return gzip_member(rest)


# Snappy in the frame of xerial's Java library

XERIAL_MAGIC = b"\x82SNAPPY\x00"
XERIAL_VERSIONS = struct.Struct(">ii")  # version, oldest version that reads it
XERIAL_HEADER = XERIAL_MAGIC + XERIAL_VERSIONS.pack(1, 1)
XERIAL_SIZE = struct.Struct(">i")
XERIAL_NEXT_HEADER = XERIAL_SIZE.unpack_from(XERIAL_MAGIC)[0]
"""A header instead of a block's size: another stream follows."""

XERIAL_MAX_BLOCK_SIZE = 512 << 20


def snappy_blocks(data: Buffer) -> Iterator[memoryview]:
    """The blocks of raw snappy in xerial's frames, or all data without a frame.

    Fewer bytes than a block's size end the data, as in `SnappyInputStream`. Raises
    `CompressionError`.
    """
    view = memoryview(data)
    if len(view) < len(XERIAL_HEADER) or view[: len(XERIAL_MAGIC)] != XERIAL_MAGIC:
        yield view
        return
    position = len(XERIAL_HEADER)
    while position + XERIAL_SIZE.size <= len(view):
        (size,) = XERIAL_SIZE.unpack_from(view, position)
        if size == XERIAL_NEXT_HEADER:
            _check_next_xerial_header(view[position : position + len(XERIAL_HEADER)])
            position += len(XERIAL_HEADER)
            continue
        position += XERIAL_SIZE.size
        if not 0 <= size <= XERIAL_MAX_BLOCK_SIZE or position + size > len(view):
            raise CompressionError("snappy: a block is cut short")
        yield view[position : position + size]
        position += size


def _check_next_xerial_header(header: memoryview) -> None:
    """Raises `CompressionError`. Of the first header, the library does not check the version."""
    if len(header) < len(XERIAL_HEADER):
        raise CompressionError("snappy: the header of another stream is cut short")
    version, _ = XERIAL_VERSIONS.unpack_from(header, len(XERIAL_MAGIC))
    if header[: len(XERIAL_MAGIC)] == XERIAL_MAGIC and version < 1:
        raise CompressionError(f"snappy: a stream of version {version}")


# LZ4

LZ4_MAGIC = b"\x04\x22\x4d\x18"
LZ4_FLAGS = 0x60  # version 1, independent blocks
LZ4_FIXED_FLAGS = 0xE3  # version, independent blocks, a reserved bit, a dictionary
LZ4_HAS_BLOCK_CHECKSUMS = 0x10
LZ4_HAS_CONTENT_SIZE = 0x08
LZ4_HAS_CONTENT_CHECKSUM = 0x04
LZ4_IS_CHECKED = LZ4_HAS_CONTENT_SIZE | LZ4_HAS_CONTENT_CHECKSUM
LZ4_BLOCK_SIZES = {0x40: 1 << 16, 0x50: 1 << 18, 0x60: 1 << 20, 0x70: 1 << 22}
LZ4_END = bytes(4)
LZ4_CHECKSUM_SIZE = 4


def lz4_frame(data: Buffer, *, is_v0: bool = False) -> Buffer:
    """The first frame, without what Kafka does not check; raises `CompressionError`.

    What follows it is ignored, as are size and checksum of the content, and in message format v0
    the header's checksum: old clients included the magic in it (KAFKA-3160).
    """
    end = _lz4_descriptor_end(data)
    right = lz4_checksum(bytes(data[len(LZ4_MAGIC) : end]))
    if data[end] != right and not is_v0:
        raise CompressionError("lz4: the frame header's checksum is wrong")
    flags = data[4]
    blocks_end, is_ended = _lz4_blocks_end(data, end + 1, flags)
    if data[end] == right and not flags & LZ4_IS_CHECKED and is_ended:
        return data if blocks_end == len(data) else memoryview(data)[:blocks_end]
    descriptor = bytes((flags & ~LZ4_IS_CHECKED, data[5]))
    header = LZ4_MAGIC + descriptor + bytes((lz4_checksum(descriptor),))
    with memoryview(data) as view, view[end + 1 : blocks_end] as blocks:
        return header + blocks + (b"" if is_ended else LZ4_END)


def _lz4_blocks_end(data: Buffer, position: int, flags: int) -> tuple[int, bool]:
    """The position after the blocks, and whether their end mark is before it.

    A block of nothing ends the data too: Kafka's consumer reads no further.
    """
    largest = LZ4_BLOCK_SIZES[data[5]]
    extra = LZ4_CHECKSUM_SIZE if flags & LZ4_HAS_BLOCK_CHECKSUMS else 0
    content = data if isinstance(data, bytes) else bytes(data)
    end = end_of_blocks(content, position, largest, extra)
    if end == TOO_LARGE:
        raise CompressionError("lz4: a block is larger than the frame's header says")
    if end < CUT_SHORT:
        return -end, False
    after = LZ4_CHECKSUM_SIZE if flags & LZ4_HAS_CONTENT_CHECKSUM else 0
    if end == CUT_SHORT or end + after > len(content):
        raise CompressionError("lz4: the frame is cut short")
    return end, True


def with_old_lz4_checksum(data: Buffer) -> Buffer:
    """The frame with the wrong header checksum of message format v0."""
    end = _lz4_descriptor_end(data)
    changed = bytearray(data)
    changed[end] = lz4_checksum(bytes(data[:end]))
    return changed


def _lz4_descriptor_end(data: Buffer) -> int:
    if len(data) < 7 or bytes(data[: len(LZ4_MAGIC)]) != LZ4_MAGIC:
        raise CompressionError("lz4: the data does not begin with a frame")
    if data[4] & LZ4_FIXED_FLAGS != LZ4_FLAGS or data[5] not in LZ4_BLOCK_SIZES:
        raise CompressionError(
            f"lz4: a frame of flags {data[4]:#04x} and {data[5]:#04x}, which Kafka does not read: "
            "blocks must be independent, and without a dictionary"
        )
    end = 14 if data[4] & LZ4_HAS_CONTENT_SIZE else 6
    if len(data) <= end:
        raise CompressionError("lz4: the frame header is cut short")
    return end


@lru_cache(maxsize=64)
def lz4_checksum(header: bytes) -> int:
    """Cached: clients write a few different headers, and each batch has one."""
    return (xxhash32(header) >> 8) & 0xFF


def xxhash32(data: bytes) -> int:
    """xxHash-32 with seed 0 for fewer than 16 bytes, for LZ4 frame headers."""
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


# zstd (RFC 8878)

ZSTD_MAGIC = 0xFD2FB528
ZSTD_SKIPPABLE_MAGIC, ZSTD_SKIPPABLE_MASK = 0x184D2A50, 0xFFFFFFF0
ZSTD_DICTIONARY_SIZES = (0, 1, 2, 4)
ZSTD_CONTENT_SIZES = (0, 2, 4, 8)
ZSTD_CUT_SHORT = "incomplete frame"
"""The end of the library's error for data that end inside of a frame."""

ZSTD_READ_SIZE = 131_075
"""The bytes that zstd's Java library reads at a time."""


def whole_zstd_frames(data: Buffer, error: CompressionError) -> Buffer:
    """The frames before the last, if the last is cut before its first block ends; else raises
    `error`, that of zstd's library about all of them.

    Java's stream notices such a frame only if it has to read again for it.
    """
    if not str(error).endswith(ZSTD_CUT_SHORT):
        raise error
    view = memoryview(data)
    end = 0
    while (next_end := _zstd_frame_end(view, end)) is not None:
        end = next_end
    is_read_again = (end - 1) // ZSTD_READ_SIZE != (len(view) - 1) // ZSTD_READ_SIZE
    if not end or is_read_again or _has_zstd_block(view, end):
        raise error
    return view[:end]


def _zstd_frame_end(view: memoryview, position: int) -> int | None:
    """The position after a frame, `None` for one that is cut short or not zstd's."""
    magic = int.from_bytes(view[position : position + 4], "little")
    if magic & ZSTD_SKIPPABLE_MASK == ZSTD_SKIPPABLE_MAGIC:
        size = int.from_bytes(view[position + 4 : position + 8], "little")
        position += 8 + size
        return position if position <= len(view) else None
    start = _zstd_blocks_start(view, position)
    if start is None:
        return None
    has_checksum = view[position + 4] & 4
    position = start
    is_last = False
    while not is_last:
        end = _zstd_block_end(view, position)
        if end is None:
            return None
        is_last = bool(view[position] & 1)
        position = end
    position += 4 if has_checksum else 0
    return position if position <= len(view) else None


def _zstd_blocks_start(view: memoryview, position: int) -> int | None:
    if len(view) < position + 5 or int.from_bytes(view[position : position + 4], "little") != (
        ZSTD_MAGIC
    ):
        return None
    flags = view[position + 4]
    is_single = flags & 0x20
    content_size = ZSTD_CONTENT_SIZES[flags >> 6] or (1 if is_single else 0)
    return position + 5 + (0 if is_single else 1) + ZSTD_DICTIONARY_SIZES[flags & 3] + content_size


def _zstd_block_end(view: memoryview, position: int) -> int | None:
    if position + 3 > len(view):
        return None
    header = int.from_bytes(view[position : position + 3], "little")
    is_repeated = header >> 1 & 3 == 1
    end = position + 3 + (1 if is_repeated else header >> 3)
    return end if end <= len(view) else None


def _has_zstd_block(view: memoryview, position: int) -> bool:
    start = _zstd_blocks_start(view, position)
    return start is not None and _zstd_block_end(view, start) is not None
