import contextlib
import gzip
import random
import struct

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.codec.compression import Compression, compress, decompress, decompress_zstd
from ottla.codec.crc32c import crc32c
from ottla.codec.frames import CompressionError, with_old_lz4_checksum

PACKING = [one for one in Compression if one is not Compression.NONE]


@given(st.sampled_from(Compression), st.binary(max_size=100_000))
def test_every_codec_gives_back_what_it_was_given(codec: Compression, data: bytes) -> None:
    assert bytes(decompress(codec, compress(codec, data))) == data


@pytest.mark.parametrize("codec", PACKING)
def test_large_and_very_repetitive_data_come_back(codec: Compression) -> None:
    data = b"the same again " * 400_000
    packed = compress(codec, memoryview(data))
    assert len(packed) < len(data) / 10
    assert bytes(decompress(codec, packed)) == data


@pytest.mark.parametrize("codec", PACKING)
def test_a_bomb_is_refused_at_the_limit(codec: Compression) -> None:
    packed = compress(codec, bytes(1_000_000))
    with pytest.raises(CompressionError, match="more than 1000 bytes"):
        decompress(codec, packed, limit=1000)
    assert len(decompress(codec, packed, limit=1_000_000)) == 1_000_000


@given(st.sampled_from(PACKING), st.binary(max_size=200))
def test_garbage_gives_bytes_or_our_error(codec: Compression, data: bytes) -> None:
    with contextlib.suppress(CompressionError):
        assert len(decompress(codec, data, limit=100_000)) <= 100_000


@pytest.mark.parametrize("codec", PACKING)
def test_data_cut_anywhere_are_refused(codec: Compression) -> None:
    plain = bytes(range(256)) * 300
    packed = bytes(compress(codec, plain))
    for size in {*range(20), *range(len(packed) - 20, len(packed)), len(packed) // 2}:
        # A xerial stream may end after any block: only what is inside it tells.
        with contextlib.suppress(CompressionError):
            short = decompress(codec, packed[:size])
            assert codec is Compression.SNAPPY
            assert len(short) % (32 * 1024) == 0


@pytest.mark.parametrize("codec", [Compression.GZIP, Compression.SNAPPY, Compression.ZSTD])
def test_two_streams_in_a_row_are_read_as_one(codec: Compression) -> None:
    packed = bytes(compress(codec, b"a" * 500)) + bytes(compress(codec, b"b" * 500))
    assert bytes(decompress(codec, packed, limit=1000)) == b"a" * 500 + b"b" * 500
    with pytest.raises(CompressionError, match="more than"):
        decompress(codec, packed, limit=999)


def test_of_lz4_the_first_frame_is_read() -> None:
    packed = bytes(compress(Compression.LZ4, b"a" * 500))
    assert bytes(decompress(Compression.LZ4, packed * 2, limit=500)) == b"a" * 500


def test_what_is_cut_off_a_second_zstd_frame_goes_unnoticed_until_it_is_read_for() -> None:
    """Java's stream reads 131,075 bytes at a time."""
    plain = random.Random(1).randbytes(140_000)
    for size in (100_000, 131_060, 131_075, 140_000):
        packed = bytes(cramjam.zstd.compress(plain[:size]))
        cut = packed + packed[:9]
        if (len(packed) - 1) // 131_075 == (len(cut) - 1) // 131_075:
            assert bytes(decompress(Compression.ZSTD, cut)) == plain[:size]
        else:
            with pytest.raises(CompressionError, match="incomplete frame"):
                decompress(Compression.ZSTD, cut)


def test_the_blocks_of_an_lz4_frame_may_be_many_and_small() -> None:
    blocks = b"".join(b"\x01\0\0\x80" + bytes((one & 0xFF,)) for one in range(200_000))
    packed = bytes(compress(Compression.LZ4, b""))[:7] + blocks + bytes(4)
    assert len(decompress(Compression.LZ4, packed)) == 200_000


@pytest.mark.parametrize("level", [1, 9])
@pytest.mark.parametrize("codec", [Compression.GZIP, Compression.LZ4, Compression.ZSTD])
def test_levels_change_the_size_and_not_the_content(codec: Compression, level: int) -> None:
    plain = b"".join(b"%d and %d;" % (i, i * i) for i in range(3000))
    assert bytes(decompress(codec, compress(codec, plain, level))) == plain


def test_an_unpacked_size_that_snappy_only_claims_is_not_allocated() -> None:
    with pytest.raises(CompressionError, match="more than"):
        decompress(Compression.SNAPPY, b"\xff\xff\xff\xff\x0f")


def test_snappy_is_framed_as_xerial_does_and_raw_is_read_too() -> None:
    data = b"snappy" * 20_000
    assert bytes(compress(Compression.SNAPPY, data)).startswith(b"\x82SNAPPY\0\0\0\0\1\0\0\0\1")
    assert decompress(Compression.SNAPPY, bytes(cramjam.snappy.compress_raw(data))) == data


def test_lz4_frames_are_of_the_kind_that_kafka_reads() -> None:
    """Kafka's `Lz4BlockInputStream` refuses linked blocks, which most libraries write."""
    packed = bytes(compress(Compression.LZ4, b"lz4" * 50_000))
    version, is_independent = packed[4] >> 6, bool(packed[4] & 0x20)
    assert (version, is_independent) == (1, True)
    assert packed[:7].hex() == "04224d18604082"
    assert packed.endswith(bytes(4))


def test_lz4_stores_what_does_not_get_smaller() -> None:
    plain = bytes(range(100))
    packed = bytes(compress(Compression.LZ4, plain))
    assert struct.unpack_from("<I", packed, 7) == (100 | 0x80000000,)
    assert packed[11:111] == plain


def test_linked_lz4_blocks_are_refused_as_kafka_refuses_them() -> None:
    packed = cramjam.lz4.compress(b"linked blocks" * 20_000)
    with pytest.raises(CompressionError, match="blocks must be independent"):
        decompress(Compression.LZ4, bytes(packed))


def test_gzip_is_what_gunzip_reads() -> None:
    assert gzip.decompress(compress(Compression.GZIP, b"plain", 1)) == b"plain"


def test_the_lz4_header_checksum_counts_from_format_v1_on() -> None:
    packed = bytes(compress(Compression.LZ4, b"lz4 of an old client" * 100))
    old = with_old_lz4_checksum(packed)
    assert old != packed
    assert bytes(decompress(Compression.LZ4, old, is_v0=True)) == b"lz4 of an old client" * 100
    with pytest.raises(CompressionError, match="checksum"):
        decompress(Compression.LZ4, old)


def test_crc32c_is_the_castagnoli_polynomial() -> None:
    assert crc32c(b"123456789") == 0xE3069283


def test_zstd_of_a_known_size_has_that_size_or_is_refused() -> None:
    packed = compress(Compression.ZSTD, b"tea" * 1000)
    assert decompress_zstd(packed, 3000) == b"tea" * 1000
    for content, size in ((packed, 2999), (packed, 3001), (packed[:-1], 3000), (b"", 1)):
        with pytest.raises(CompressionError, match="zstd: "):
            decompress_zstd(content, size)
