"""The four codecs of record batches, with a limit on the decompressed size.

gzip, LZ4 and zstd produce the same bytes as the Java client, if the versions of the libraries
agree. Snappy has the frame of xerial's Java library; raw snappy, which librdkafka sends, can be
read too. LZ4 frames have independent blocks of 64 KiB and no checksums. What is read is what
Kafka's record layer reads (`codec/frames.py`). Kafka's counterpart:
`org.apache.kafka.common.compress`.
"""

import struct
import zlib
from enum import IntEnum
from typing import Any

from ottla.base.files import Buffer
from ottla.codec.frames import (
    GZIP_BITS,
    LZ4_END,
    LZ4_FLAGS,
    LZ4_MAGIC,
    XERIAL_HEADER,
    XERIAL_SIZE,
    CompressionError,
    gzip_member,
    lz4_checksum,
    lz4_frame,
    next_gzip_member,
    snappy_blocks,
    whole_zstd_frames,
)


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


CODECS = {one.kafka_name: one for one in Compression}
"""The codecs by their names in `compression.type`."""


class UnpackedSizeError(CompressionError):
    """Data that decompresses to more bytes than allowed."""


DEFAULT_LIMIT = 256 * 1024 * 1024
"""The largest decompressed size of a batch on reading, in bytes; no client writes such batches."""

FREE_SIZE = 16 << 20
"""The decompressed size in bytes that is allowed for every batch, however small."""


def limit_of(packed_size: int, max_size: int, max_ratio: int) -> int:
    """The largest decompressed size in bytes of `packed_size` bytes, for `decompress`."""
    return min(max_size, max(FREE_SIZE, packed_size * max_ratio))


GZIP_SYSTEM_POSITION = 9
GZIP_UNKNOWN_SYSTEM = 0xFF
"""The value for the operating system in the gzip header, as in Java 16 and later."""

XERIAL_BLOCK_SIZE = 32 * 1024


def compress(codec: Compression, data: Buffer, level: int | None = None) -> Buffer:
    """The compressed bytes; `level` is on the codec's own scale, `None` for its default."""
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
            return _zstd(data, 3 if level is None else level)


def decompress(
    codec: Compression, data: Buffer, limit: int = DEFAULT_LIMIT, *, is_v0: bool = False
) -> Buffer:
    """The decompressed bytes; raises `CompressionError` for invalid data or more than `limit`.

    `is_v0`: of a message of format v0.
    """
    match codec:
        case Compression.NONE:
            return data
        case Compression.GZIP:
            return _gunzip(data, limit)
        case Compression.SNAPPY:
            return _unsnappy(data, limit)
        case Compression.LZ4:
            return _unpack("lz4", lz4_frame(data, is_v0=is_v0), limit)
        case Compression.ZSTD:
            return _unzstd(data, limit)


def compress_zstd(data: bytes) -> bytes:
    """A frame that says the size of its content, as zstd's own function for one buffer makes it."""
    return bytes(_cramjam().zstd.compress(data, 3))


def decompress_zstd(data: Buffer, size: int) -> Buffer:
    """The decompressed bytes, of which there must be `size`; raises `CompressionError`.

    Without a guess at the size it takes half the time of `decompress`.
    """
    plain = bytearray(size)
    try:
        count = _cramjam().zstd.decompress_into(data, plain)
    except _cramjam().DecompressionError as error:
        raise CompressionError(f"zstd: {error}") from error
    if count != size:
        raise CompressionError(f"zstd: {count} bytes instead of {size}")
    return plain


def _cramjam() -> Any:
    import cramjam

    return cramjam


def _view(buffer: Any) -> memoryview:
    return memoryview(buffer)


def too_large(limit: int) -> UnpackedSizeError:
    return UnpackedSizeError(f"a batch decompresses to more than {limit} bytes")


def _gzip(data: Buffer, level: int) -> bytearray:
    packer = zlib.compressobj(level, zlib.DEFLATED, GZIP_BITS)
    out = bytearray(packer.compress(data))
    out += packer.flush()
    out[GZIP_SYSTEM_POSITION] = GZIP_UNKNOWN_SYSTEM
    return out


def _gunzip(data: Buffer, limit: int) -> Buffer:
    """All members of a gzip stream, as `GZIPInputStream` reads them."""
    plain = b""
    rest: Buffer | None = gzip_member(data)
    while rest is not None:
        unpacker = zlib.decompressobj(GZIP_BITS)
        try:
            part = unpacker.decompress(rest, limit + 1 - len(plain))
        except zlib.error as error:
            raise CompressionError(f"gzip: {error}") from error
        plain = plain + part if plain else part
        if len(plain) > limit:
            raise too_large(limit)
        if not unpacker.eof:
            raise CompressionError("gzip: the data is cut short")
        rest = next_gzip_member(unpacker.unused_data)
    return plain


def _snappy(data: Buffer) -> bytearray:
    raw = _cramjam().snappy.compress_raw
    view = memoryview(data)
    out = bytearray(XERIAL_HEADER)
    for start in range(0, len(view), XERIAL_BLOCK_SIZE):
        block = memoryview(raw(view[start : start + XERIAL_BLOCK_SIZE]))
        out += XERIAL_SIZE.pack(len(block))
        out += block
    return out


def _unsnappy(data: Buffer, limit: int) -> Buffer:
    blocks = [*snappy_blocks(data)]
    if len(blocks) == 1:
        return _unsnappy_raw(blocks[0], limit)
    out = bytearray()
    for block in blocks:
        out += _unsnappy_raw(block, limit - len(out))
    return out


def _unsnappy_raw(data: memoryview, limit: int) -> memoryview:
    snappy = _cramjam().snappy
    try:
        # The length in the data decides how much memory is allocated.
        if snappy.decompress_raw_len(data) > limit:
            raise too_large(limit)
        return _view(snappy.decompress_raw(data))
    except _cramjam().DecompressionError as error:
        raise CompressionError(f"snappy: {error}") from error


def _zstd(data: Buffer, level: int) -> bytearray:
    """Compresses as the Java client's stream does: no content size, and a flush before the end."""
    packer = _cramjam().zstd.Compressor(level)
    packer.compress(bytes(data))  # does not accept views
    out = bytearray(packer.flush())
    out += packer.finish()
    return out


def _unzstd(data: Buffer, limit: int) -> Buffer:
    try:
        return _unpack("zstd", data, limit)
    except CompressionError as error:
        return _unpack("zstd", whole_zstd_frames(data, error), limit)


LZ4_BLOCK_SIZE_CODE = 0x40
LZ4_BLOCK_SIZE = 64 * 1024
LZ4_SIZE = struct.Struct("<I")
LZ4_INCOMPRESSIBLE = 0x80000000


def _lz4(data: Buffer, level: int | None) -> bytearray:
    descriptor = bytes((LZ4_FLAGS, LZ4_BLOCK_SIZE_CODE))
    out = bytearray(LZ4_MAGIC + descriptor)
    out.append(lz4_checksum(descriptor))
    view = memoryview(data)
    for start in range(0, len(view), LZ4_BLOCK_SIZE):
        plain = view[start : start + LZ4_BLOCK_SIZE]
        block = _lz4_block(plain, level)
        is_smaller = len(block) < len(plain)
        out += LZ4_SIZE.pack(len(block) if is_smaller else len(plain) | LZ4_INCOMPRESSIBLE)
        out += block if is_smaller else plain
    out += LZ4_END
    return out


def _lz4_block(plain: memoryview, level: int | None) -> memoryview:
    lz4 = _cramjam().lz4
    if level is None:
        return _view(lz4.compress_block(plain, store_size=False))
    return _view(
        lz4.compress_block(plain, mode="high_compression", compression=level, store_size=False)
    )


OUTPUT_TOO_SMALL = "failed to write whole buffer"
"""The message of cramjam's error for an output buffer that is too small."""


def _unpack(name: str, data: Buffer, limit: int) -> Buffer:
    """Decompresses into a buffer that grows up to `limit` bytes."""
    # Frames rarely contain the decompressed size, so the first buffer size is a guess.
    module = getattr(_cramjam(), name)
    size = min(limit, max(64 * 1024, 4 * len(data)))
    while True:
        plain = bytearray(size)
        try:
            return memoryview(plain)[: module.decompress_into(data, plain)]
        except _cramjam().DecompressionError as error:
            if str(error) != OUTPUT_TOO_SMALL:
                raise CompressionError(f"{name}: {error}") from error
        if size >= limit:
            raise too_large(limit)
        size = min(limit, 4 * size)
