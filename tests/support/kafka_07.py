"""Writes files of Kafka 0.7 by the grammar of its design page: what ours reads is held to it."""

import gzip
import struct
import zlib
from collections.abc import Sequence
from pathlib import Path

import cramjam

GZIP, SNAPPY = 1, 2
XERIAL = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)


def message(payload: bytes, *, magic: int = 1, codec: int = 0) -> bytes:
    """An entry: the length, and the message."""
    head = bytes([magic]) + (bytes([codec]) if magic else b"")
    found = head + struct.pack(">I", zlib.crc32(payload)) + payload
    return struct.pack(">i", len(found)) + found


def wrapper(payloads: Sequence[bytes], codec: int, *, magic: int = 1) -> bytes:
    """Many messages compressed into one, as a producer with compression sent them."""
    plain = b"".join(message(one, magic=magic) for one in payloads)
    if codec == GZIP:
        packed = gzip.compress(plain)
    else:
        block = bytes(cramjam.snappy.compress_raw(plain))
        packed = XERIAL + struct.pack(">i", len(block)) + block
    return message(packed, codec=codec)


def write_log(directory: Path, topic: str, number: int, files: Sequence[bytes]) -> None:
    """The files of a partition, each named by the position at which it begins."""
    where = directory / f"{topic}_{number}"
    where.mkdir(parents=True)
    position = 0
    for content in files:
        (where / f"{position:020}.kafka").write_bytes(content)
        position += len(content)
