"""Frames of every codec as clients write them, and as only a few do: whole, cut, repeated,
followed by something, or with parts that a reader may check.

A frame is made of the records of a batch: `Frame.pack` gets the records of a v2 batch, or the
messages of a wrapper.
"""

import struct
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import cramjam

from ottla.base.values import dataclass
from ottla.codec.compression import Compression, compress
from ottla.codec.crc32c import crc32c
from ottla.codec.frames import LZ4_MAGIC, xxhash32
from ottla.record.batch import RecordBatch
from ottla.record.builder import RecordBatchBuilder
from ottla.record.legacy import build_message

CRC_POSITION, ATTRIBUTES_POSITION, RECORDS_POSITION = 17, 21, 61
NOW_MS = 1_700_000_000_000
Pack = Callable[[bytes], bytes]


@dataclass(frozen=True, slots=True)
class Frame:
    """`name` begins with the codec's; `magic` is the format of the batch."""

    name: str
    codec: Compression
    pack: Pack


def packed(codec: Compression, plain: bytes) -> bytes:
    return bytes(compress(codec, plain))


def halves(plain: bytes) -> tuple[bytes, bytes]:
    return plain[: len(plain) // 2], plain[len(plain) // 2 :]


def in_two(pack: Pack, between: bytes = b"") -> Pack:
    """One frame for each half of the records."""
    return lambda plain: between.join(map(pack, halves(plain)))


def then(pack: Pack, tail: bytes) -> Pack:
    return lambda plain: pack(plain) + tail


def without(pack: Pack, count: int) -> Pack:
    return lambda plain: pack(plain)[:-count]


def changed(pack: Pack, position: int, bits: int) -> Pack:
    def change(plain: bytes) -> bytes:
        data = bytearray(pack(plain))
        data[position] ^= bits
        return bytes(data)

    return change


TAILS = {
    "a zero": b"\0",
    "3 zeros": bytes(3),
    "4 zeros": bytes(4),
    "19 zeros": bytes(19),
    "1000 zeros": bytes(1000),
    "a byte": b"x",
    "garbage": b"garbage!" * 5,
}


def around(name: str, pack: Pack) -> Iterator[tuple[str, Pack]]:
    """What may happen to any codec's frame."""
    yield name, pack
    yield f"{name}, nothing at all", lambda _: b""
    yield f"{name} of nothing", lambda _: pack(b"")
    yield f"{name} of too much", lambda plain: pack(plain + b"\0")
    yield f"{name} of too little", lambda plain: pack(plain[:-1])
    yield f"{name} in two", in_two(pack)
    yield f"{name}, and nothing in a second", lambda plain: pack(plain) + pack(b"")
    yield f"{name}, nothing in a first", lambda plain: pack(b"") + pack(plain)
    yield f"{name} twice", lambda plain: pack(plain) * 2
    for count in (1, 4, 8, 12):
        yield f"{name} without its last {count}", without(pack, count)
    for tail, data in TAILS.items():
        yield f"{name}, then {tail}", then(pack, data)
    yield f"{name}, then half a second", lambda plain: pack(plain) + pack(plain)[:-9]
    yield f"{name}, then the first 12 of a second", lambda plain: pack(plain) + pack(plain)[:12]


# gzip


def gzip_member(
    plain: bytes,
    *,
    flags: int = 0,
    extra: bytes = b"",
    method: int = 8,
    off: tuple[int, int] = (0, 0),
    header_crc: int | None = None,
) -> bytes:
    """`extra` are the optional fields that `flags` announce; `off` by how much the checksum and
    the size at the end are wrong.
    """
    packer = zlib.compressobj(6, zlib.DEFLATED, -15)
    header = bytes((0x1F, 0x8B, method, flags, 0, 0, 0, 0, 0, 0xFF)) + extra
    if header_crc is not None:
        header += struct.pack("<H", (zlib.crc32(header) & 0xFFFF) ^ header_crc)
    body = packer.compress(plain) + packer.flush()
    ending = struct.pack("<II", zlib.crc32(plain) ^ off[0], (len(plain) + off[1]) & 0xFFFFFFFF)
    return header + body + ending


def gzip_frames() -> Iterator[tuple[str, Pack]]:
    yield from around("gzip", partial(packed, Compression.GZIP))
    fields = {
        "text flag": (0x01, b"", None),
        "extra field": (0x04, b"\4\0abcd", None),
        "name": (0x08, b"name\0", None),
        "comment": (0x10, b"comment\0", None),
        "all fields": (0x1C, b"\4\0abcdname\0comment\0", None),
        "header checksum": (0x02, b"", 0),
        "header checksum of all": (0x1E, b"\4\0abcdname\0comment\0", 0),
        "wrong header checksum": (0x02, b"", 1),
        "name without an end": (0x08, b"", None),
        "reserved flag": (0x20, b"", None),
        "reserved flags": (0xE0, b"", None),
    }
    for name, (flags, extra, header_crc) in fields.items():
        member = partial(gzip_member, flags=flags, extra=extra, header_crc=header_crc)
        yield f"gzip, {name}", member
        yield (
            f"gzip, {name} in a second",
            lambda plain, member=member: gzip_member(halves(plain)[0]) + member(halves(plain)[1]),
        )
        yield (
            f"gzip, {name} after all",
            lambda plain, member=member: gzip_member(plain) + member(b""),
        )
    yield "gzip, another method", partial(gzip_member, method=7)
    yield "gzip, wrong checksum", partial(gzip_member, off=(1, 0))
    yield "gzip, wrong size", partial(gzip_member, off=(0, 1))
    yield (
        "gzip, wrong checksum after all",
        lambda plain: gzip_member(plain) + gzip_member(b"", off=(1, 0)),
    )
    yield "gzip, zeros, then a second", in_two(gzip_member, bytes(8))
    yield "gzip, a magic after it", then(gzip_member, b"\x1f\x8b\x08" + bytes(30))
    yield "gzip, half a magic after it", then(gzip_member, b"\x1f" + bytes(30))
    yield "gzip, a header after it", then(gzip_member, gzip_member(b"")[:10])
    yield "zlib in place of gzip", lambda plain: zlib.compress(plain)


# Snappy

XERIAL = b"\x82SNAPPY\0"


def raw_snappy(plain: bytes) -> bytes:
    return bytes(cramjam.snappy.compress_raw(plain))


def xerial(plain: bytes, *, version: int = 1, least: int = 1, block: int = 1 << 15) -> bytes:
    out = XERIAL + struct.pack(">ii", version, least)
    for start in range(0, len(plain), block):
        one = raw_snappy(plain[start : start + block])
        out += struct.pack(">i", len(one)) + one
    return out


def xerial_block(content: bytes, size: int | None = None) -> bytes:
    return struct.pack(">i", len(content) if size is None else size) + content


def snappy_frames() -> Iterator[tuple[str, Pack]]:
    yield from around("snappy, raw", raw_snappy)
    yield from around("snappy, xerial", xerial)
    yield "snappy, xerial's header alone", lambda _: xerial(b"")
    for cut in (1, 4, 8, 12, 15):
        yield f"snappy, the first {cut} of xerial's header", lambda _, cut=cut: xerial(b"")[:cut]
        yield f"snappy, xerial, then {cut} of a header", then(xerial, xerial(b"")[:cut])
    for block in (1, 7, 1 << 20):
        yield f"snappy, xerial of blocks of {block}", partial(xerial, block=block)
    for version, least in ((0, 0), (0, 1), (1, 0), (2, 1), (2, 2), (-1, 1)):
        yield (
            f"snappy, xerial of version {version}, {least}",
            partial(xerial, version=version, least=least),
        )
        yield (
            f"snappy, xerial, then one of version {version}, {least}",
            lambda plain, v=(version, least): (
                xerial(halves(plain)[0]) + xerial(halves(plain)[1], version=v[0], least=v[1])
            ),
        )
    yield "snappy, xerial with another first byte", changed(xerial, 0, 1)
    yield "snappy, xerial with another magic", changed(xerial, 3, 1)
    yield "snappy, xerial, then another magic", in_two(xerial, XERIAL[:4] + b"OTHER" + bytes(7))
    yield "snappy, xerial, an empty block", then(xerial, xerial_block(b""))
    yield "snappy, xerial, a block of nothing", then(xerial, xerial_block(raw_snappy(b"")))
    yield (
        "snappy, xerial, a block of nothing first",
        lambda plain: xerial(b"") + xerial_block(raw_snappy(b"")) + xerial(plain)[16:],
    )
    yield "snappy, xerial, a negative block", then(xerial, xerial_block(b"abc", -1))
    yield "snappy, xerial, a block cut short", then(xerial, xerial_block(b"abc", 9))
    yield "snappy, xerial, a garbled block", then(xerial, xerial_block(b"\xff" * 9))
    yield "snappy's own frames", lambda plain: bytes(cramjam.snappy.compress(plain))


# LZ4

INDEPENDENT, BLOCK_CHECKSUM, CONTENT_SIZE, CONTENT_CHECKSUM, DICTIONARY = 0x20, 0x10, 8, 4, 1
UNPACKED = 0x80000000


def xxh32(data: bytes) -> int:
    """xxHash-32 with seed 0, of any length."""
    if len(data) < 16:
        return xxhash32(data)
    mask, first, second = 0xFFFFFFFF, 2654435761, 2246822519
    lanes = [first + second & mask, second, 0, -first & mask]
    end = len(data) // 16 * 16
    for position in range(0, end, 16):
        for lane, word in enumerate(struct.unpack_from("<4I", data, position)):
            value = (lanes[lane] + word * second) & mask
            lanes[lane] = (value << 13 | value >> 19) * first & mask
    value = 0
    for lane, turn in zip(lanes, (1, 7, 12, 18), strict=True):
        value += lane << turn | lane >> (32 - turn)
    return _finish(data[end:], (value + len(data)) & mask)


def _finish(rest: bytes, value: int) -> int:
    mask, position = 0xFFFFFFFF, 0
    while position + 4 <= len(rest):
        value = (
            value + int.from_bytes(rest[position : position + 4], "little") * 3266489917
        ) & mask
        value = (value << 17 | value >> 15) * 668265263 & mask
        position += 4
    for byte in rest[position:]:
        value = (value + byte * 374761393) & mask
        value = (value << 11 | value >> 21) * 2654435761 & mask
    value = (value ^ value >> 15) * 2246822519 & mask
    value = (value ^ value >> 13) * 3266489917 & mask
    return value ^ value >> 16


def lz4_block(plain: bytes, *, is_packed: bool = True) -> bytes:
    block = bytes(cramjam.lz4.compress_block(plain, store_size=False)) if is_packed else plain
    return struct.pack("<I", len(block) | (0 if is_packed else UNPACKED)) + block


@dataclass(frozen=True, slots=True, kw_only=True)
class Lz4:
    """An LZ4 frame; a checksum is changed by the bits of `wrong_...`."""

    flags: int = 0x40 | INDEPENDENT
    size_code: int = 0x40
    is_packed: bool = True
    ends: bool = True
    block: int = 1 << 16
    content_size: int | None = None
    extra: bytes = b""
    old_checksum: bool = False
    wrong_header: int = 0
    wrong_block: int = 0
    wrong_content: int = 0

    def __call__(self, plain: bytes) -> bytes:
        head = bytes((self.flags, self.size_code))
        if self.flags & CONTENT_SIZE:
            head += struct.pack(
                "<Q", len(plain) if self.content_size is None else self.content_size
            )
        if self.flags & DICTIONARY:
            head += bytes(4)
        checksum = xxh32(LZ4_MAGIC + head if self.old_checksum else head) >> 8 & 0xFF
        out = LZ4_MAGIC + head + bytes((checksum ^ self.wrong_header,))
        for start in range(0, len(plain), self.block):
            out += self._block(lz4_block(plain[start:][: self.block], is_packed=self.is_packed))
        out += self.extra
        if self.ends:
            out += bytes(4)
            if self.flags & CONTENT_CHECKSUM:
                out += struct.pack("<I", xxh32(plain) ^ self.wrong_content)
        return out

    def _block(self, block: bytes) -> bytes:
        if not self.flags & BLOCK_CHECKSUM:
            return block
        return block + struct.pack("<I", xxh32(block[4:]) ^ self.wrong_block)


def skippable(number: int, content: bytes = b"skipped") -> bytes:
    """A skippable frame, of LZ4 and zstd."""
    return struct.pack("<II", 0x184D2A50 + number, len(content)) + content


def lz4_frames() -> Iterator[tuple[str, Pack]]:
    base = 0x40 | INDEPENDENT
    yield from around("lz4", partial(packed, Compression.LZ4))
    for name, flag in (
        ("block checksums", BLOCK_CHECKSUM),
        ("the content's size", CONTENT_SIZE),
        ("a content checksum", CONTENT_CHECKSUM),
        ("all checks", BLOCK_CHECKSUM | CONTENT_SIZE | CONTENT_CHECKSUM),
        ("a dictionary", DICTIONARY),
        ("a reserved flag", 2),
    ):
        yield f"lz4 with {name}", Lz4(flags=base | flag)
        yield f"lz4 with {name} in small blocks", Lz4(flags=base | flag, block=50)
        yield f"lz4 with {name}, then garbage", then(Lz4(flags=base | flag), b"garbage")
        yield f"lz4 with {name}, twice", in_two(Lz4(flags=base | flag))
        yield f"lz4 with {name}, the old header checksum", Lz4(flags=base | flag, old_checksum=True)
        yield f"lz4 with {name}, cut by 2", without(Lz4(flags=base | flag), 2)
    yield "lz4 with linked blocks", Lz4(flags=0x40)
    yield "lz4 with linked blocks by a library", lambda plain: bytes(cramjam.lz4.compress(plain))
    yield "lz4 of version 0", Lz4(flags=INDEPENDENT)
    yield "lz4 of version 2", Lz4(flags=0x80 | INDEPENDENT)
    yield "lz4 of version 3", Lz4(flags=0xC0 | INDEPENDENT)
    for code in (0x00, 0x30, 0x50, 0x60, 0x70, 0x41, 0x4F, 0xC0, 0x80):
        yield f"lz4 with a block size of {code:#x}", Lz4(size_code=code)
    yield "lz4 with the old header checksum", Lz4(old_checksum=True)
    yield "lz4 with a wrong header checksum", Lz4(wrong_header=1)
    yield "lz4 with a wrong block checksum", Lz4(flags=base | BLOCK_CHECKSUM, wrong_block=1)
    yield "lz4 with a wrong content checksum", Lz4(flags=base | CONTENT_CHECKSUM, wrong_content=1)
    for size in (0, 1, 1 << 40, (1 << 64) - 1):
        yield (
            f"lz4 with a content size of {size}",
            Lz4(flags=base | CONTENT_SIZE, content_size=size),
        )
    yield "lz4 of unpacked blocks", Lz4(is_packed=False)
    yield "lz4 of small blocks", Lz4(block=50)
    yield "lz4 of blocks of a byte", Lz4(block=1)
    yield "lz4 of unpacked blocks of a byte", Lz4(block=1, is_packed=False)
    yield "lz4 with an empty block", Lz4(extra=lz4_block(b""))
    yield (
        "lz4 with an empty block first",
        lambda plain: (
            packed(Compression.LZ4, plain)[:7] + lz4_block(b"") + packed(Compression.LZ4, plain)[7:]
        ),
    )
    yield "lz4 with an empty unpacked block", Lz4(extra=lz4_block(b"", is_packed=False))
    yield "lz4 with a garbled block", Lz4(extra=struct.pack("<I", 9) + b"\xff" * 9)
    yield (
        "lz4 with an unpacked block too large",
        Lz4(extra=lz4_block(bytes((1 << 16) + 1), is_packed=False)),
    )
    yield "lz4 with a block too large", Lz4(extra=lz4_block(bytes((1 << 16) + 1)))
    yield "lz4 with a block cut short", Lz4(extra=struct.pack("<I", 9) + b"\0", ends=False)
    yield "lz4 without an end", Lz4(ends=False)
    yield "lz4 without an end, with a checksum", Lz4(flags=base | CONTENT_CHECKSUM, ends=False)
    yield "lz4 with another magic", changed(Lz4(), 0, 1)
    yield "lz4, the old format", lambda plain: b"\x02\x21\x4c\x18" + lz4_block(plain)
    yield "lz4, skippable first", lambda plain: skippable(0) + Lz4()(plain)
    yield "lz4, skippable after", then(Lz4(), skippable(15))
    yield "lz4, half a skippable after", then(Lz4(), skippable(0)[:-1])
    yield "lz4 block without a frame", lambda plain: lz4_block(plain)


# zstd


def zstd_of_size(plain: bytes) -> bytes:
    return bytes(cramjam.zstd.compress(plain))


def zstd_raw(plain: bytes, *, window: int | None, checksum: bytes | None = None) -> bytes:
    """A frame of one raw block; `window` is its descriptor, `None` for a single segment."""
    out = struct.pack("<I", 0xFD2FB528)
    has_checksum = 0 if checksum is None else 4
    if window is None:
        out += bytes((0xA0 | has_checksum,)) + struct.pack("<I", len(plain))
    else:
        out += bytes((has_checksum, window))
    return out + (len(plain) << 3 | 1).to_bytes(3, "little") + plain + (checksum or b"")


def zstd_frames() -> Iterator[tuple[str, Pack]]:
    yield from around("zstd", partial(packed, Compression.ZSTD))
    yield from around("zstd with its size", zstd_of_size)
    for count in (1, 3, 4, 5, 6, 7, 9, 10):
        yield (
            f"zstd, then {count} of a second",
            lambda plain, count=count: (
                zstd_of_size(plain) + packed(Compression.ZSTD, plain)[:count]
            ),
        )
        yield (
            f"zstd, then {count} of a skippable",
            lambda plain, count=count: zstd_of_size(plain) + skippable(5)[:count],
        )
    yield (
        "zstd, then a second without its checksum",
        lambda plain: zstd_of_size(plain) + zstd_raw(plain, window=0, checksum=b"abcd")[:-4],
    )
    yield (
        "zstd, then a window too large",
        lambda plain: zstd_of_size(plain) + zstd_raw(plain, window=0xF8)[:8],
    )
    for window in (0, 0x50, 0x87, 0x88, 0x89, 0x90, 0xA0, 0xA8, 0xF8, 0xFF):
        yield f"zstd with a window of {window:#x}", partial(zstd_raw, window=window)
    yield "zstd of one segment", partial(zstd_raw, window=None)
    yield "zstd with a wrong checksum", partial(zstd_raw, window=0, checksum=b"abcd")
    yield (
        "zstd with a dictionary",
        lambda plain: struct.pack("<IBBB", 0xFD2FB528, 1, 0, 7) + zstd_raw(plain, window=0)[6:],
    )
    yield "zstd with a reserved bit", changed(partial(zstd_raw, window=0), 4, 8)
    yield "zstd with the unused bit", changed(partial(zstd_raw, window=0), 4, 16)
    yield "zstd with another magic", changed(zstd_of_size, 0, 1)
    yield "zstd of the version before", changed(zstd_of_size, 0, 0x28 ^ 0x27)
    for number in (0, 15):
        yield (
            f"zstd, skippable {number} first",
            lambda plain, number=number: skippable(number) + zstd_of_size(plain),
        )
        yield f"zstd, skippable {number} after", then(zstd_of_size, skippable(number))
    yield "zstd, skippable between", in_two(zstd_of_size, skippable(3))
    yield "zstd, an empty skippable after", then(zstd_of_size, skippable(3, b""))
    yield "zstd, half a skippable after", then(zstd_of_size, skippable(0)[:-1])
    yield "zstd, half a skippable's header after", then(zstd_of_size, skippable(0)[:6])
    yield "zstd, skippable alone", lambda _: skippable(0)


def frames() -> Iterator[Frame]:
    for codec, made in (
        (Compression.GZIP, gzip_frames()),
        (Compression.SNAPPY, snappy_frames()),
        (Compression.LZ4, lz4_frames()),
        (Compression.ZSTD, zstd_frames()),
    ):
        for name, pack in made:
            yield Frame(name, codec, pack)


# Batches

KEYS = (b"first", b"second", b"third")
VALUE = b"some value, some value, some value"


def batch_of(frame: Frame, magic: int) -> bytes:
    """A batch of three records in a frame."""
    return _record_batch(frame) if magic == 2 else _wrapper(frame, magic)


def _record_batch(frame: Frame) -> bytes:
    builder = RecordBatchBuilder()
    for key in KEYS:
        builder.append(key, VALUE, NOW_MS)
    plain = bytes(builder.build())
    payload = frame.pack(bytes(RecordBatch(plain).payload))
    batch = bytearray(plain[:RECORDS_POSITION] + payload)
    struct.pack_into(">i", batch, 8, len(batch) - 12)
    struct.pack_into(">h", batch, ATTRIBUTES_POSITION, frame.codec)
    struct.pack_into(">I", batch, CRC_POSITION, crc32c(batch[ATTRIBUTES_POSITION:]))
    return bytes(batch)


def _wrapper(frame: Frame, magic: int) -> bytes:
    messages = b"".join(
        build_message(key, VALUE, magic=magic, offset=offset, timestamp_ms=NOW_MS)
        for offset, key in enumerate(KEYS)
    )
    return build_message(
        None,
        frame.pack(messages),
        magic=magic,
        offset=len(KEYS) - 1,
        timestamp_ms=NOW_MS,
        attributes=frame.codec,
    )


# Verdicts

VERDICTS = Path(__file__).with_name("codec_verdicts.txt")
REFUSED = "refused"
MAGICS = (2, 1, 0)


def verdicts() -> dict[str, dict[int, list[int] | None]]:
    """The offsets of the records that Kafka reads, `None` for a batch that it refuses, by the names
    of the frames and the formats of the batch."""
    found = {}
    for line in VERDICTS.read_text().splitlines():
        if not line.startswith("#"):
            name, *columns = line.split(" | ")
            found[name] = {
                magic: None if one == REFUSED else [*map(int, one.split())]
                for magic, one in zip(MAGICS, columns, strict=False)
            }
    return found
