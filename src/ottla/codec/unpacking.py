"""Decompresses batches of a long request without blocking other requests.

100 MB of records are copied in 80 ms and freed in 16 ms, in which no other thread has the
interpreter. So they are decompressed into separate memory pages, by calls that release the
interpreter lock, and the pages are freed some at a time. The results are those of
`codec/compression.py`, which is used outside of long requests.
"""

import mmap
import sys
import zlib
from collections.abc import Callable
from typing import Any, Final, cast

from ottla.base.files import Buffer
from ottla.base.turns import aside, in_a_turn, yield_turn
from ottla.codec.compression import OUTPUT_TOO_SMALL, Compression, decompress, too_large
from ottla.codec.frames import (
    GZIP_BITS,
    CompressionError,
    gzip_member,
    lz4_frame,
    next_gzip_member,
    snappy_blocks,
    whole_zstd_frames,
)

PART_SIZE: Final = 1 << 20
"""The bytes that are decompressed or freed in one step, of 0.2 ms."""

HAS_PAGES: Final = sys.platform == "linux"
"""Whether single pages can be freed, and a mapping shrunk (`mremap`)."""


class UnpackedMemory:
    """The memory with the decompressed records of one long request, until `give_back`."""

    def __init__(self) -> None:
        self._mapped: list[mmap.mmap] = []

    def unpack(self, codec: Compression, data: Buffer, limit: int) -> Buffer:
        """The decompressed bytes, in a long request as a memory mapping.

        Raises `CompressionError` and `MemoryError`.
        """
        if codec is Compression.NONE or not (HAS_PAGES and in_a_turn()):
            return decompress(codec, data, limit)
        try:
            pages = mmap.mmap(-1, limit, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        except OSError as error:
            # Callers take an OSError for a disk failure.
            raise MemoryError(f"no {limit} bytes of memory to decompress a batch") from error
        self._mapped.append(pages)
        size = aside(lambda: _INTO[codec](data, pages))
        if not size:
            return b""
        pages.resize(size)
        return cast(Buffer, pages)  # whose slices are bytes

    def give_back(self) -> None:
        """Frees the memory in turns; the decompressed bytes must not be used any more."""
        while self._mapped:
            pages = self._mapped.pop()
            for start in range(0, len(pages), PART_SIZE):
                yield_turn()
                pages.madvise(mmap.MADV_DONTNEED, start, min(PART_SIZE, len(pages) - start))
            pages.close()


def _gunzip(data: Buffer, pages: mmap.mmap) -> int:
    end = 0
    rest: Buffer | None = gzip_member(data)
    while rest is not None:
        unpacker = zlib.decompressobj(GZIP_BITS)
        while not unpacker.eof:
            try:
                part = unpacker.decompress(rest, PART_SIZE)
            except zlib.error as error:
                raise CompressionError(f"gzip: {error}") from error
            rest = unpacker.unconsumed_tail
            if not (part or rest or unpacker.eof):
                raise CompressionError("gzip: the data is cut short")
            if end + len(part) > len(pages):
                raise too_large(len(pages))
            pages[end : end + len(part)] = part
            end += len(part)
        rest = next_gzip_member(unpacker.unused_data)
    return end


def _unsnappy(data: Buffer, pages: mmap.mmap) -> int:
    snappy = _cramjam().snappy
    end = 0
    for block in snappy_blocks(data):
        try:
            if end + snappy.decompress_raw_len(block) > len(pages):
                raise too_large(len(pages))
            with memoryview(pages) as all_, all_[end:] as left:
                end += snappy.decompress_raw_into(block, left)
        except _cramjam().DecompressionError as error:
            raise CompressionError(f"snappy: {error}") from error
    return end


def _unlz4(data: Buffer, pages: mmap.mmap) -> int:
    return _unpack("lz4", lz4_frame(data), pages)


def _unzstd(data: Buffer, pages: mmap.mmap) -> int:
    try:
        return _unpack("zstd", data, pages)
    except CompressionError as error:
        return _unpack("zstd", whole_zstd_frames(data, error), pages)


def _unpack(name: str, data: Buffer, pages: mmap.mmap) -> int:
    try:
        return int(getattr(_cramjam(), name).decompress_into(data, pages))
    except _cramjam().DecompressionError as error:
        if str(error) == OUTPUT_TOO_SMALL:
            raise too_large(len(pages)) from error
        raise CompressionError(f"{name}: {error}") from error


def _cramjam() -> Any:
    import cramjam

    return cramjam


_INTO: Final[dict[Compression, Callable[[Buffer, mmap.mmap], int]]] = {
    Compression.GZIP: _gunzip,
    Compression.SNAPPY: _unsnappy,
    Compression.LZ4: _unlz4,
    Compression.ZSTD: _unzstd,
}
