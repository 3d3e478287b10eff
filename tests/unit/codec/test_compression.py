import contextlib
import gzip

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.codec.compression import (
    Compression,
    CompressionError,
    compress,
    decompress,
    with_old_lz4_checksum,
    with_right_lz4_checksum,
)
from ottla.codec.crc32c import crc32c

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
def test_data_cut_short_are_refused(codec: Compression) -> None:
    packed = bytes(compress(codec, bytes(range(256)) * 500))
    with pytest.raises(CompressionError):
        decompress(codec, packed[: len(packed) // 2])


def test_snappy_is_framed_as_xerial_does_and_raw_is_read_too() -> None:
    data = b"snappy" * 20_000
    assert bytes(compress(Compression.SNAPPY, data)).startswith(b"\x82SNAPPY\0\0\0\0\1\0\0\0\1")
    assert decompress(Compression.SNAPPY, bytes(cramjam.snappy.compress_raw(data))) == data


def test_gzip_is_what_gunzip_reads() -> None:
    assert gzip.decompress(compress(Compression.GZIP, b"plain", 1)) == b"plain"


def test_the_old_lz4_header_checksum_is_read_and_mended() -> None:
    packed = bytes(compress(Compression.LZ4, b"lz4 of an old client" * 100))
    old = with_old_lz4_checksum(packed)
    assert old != packed
    assert bytes(with_right_lz4_checksum(old)) == packed
    assert bytes(decompress(Compression.LZ4, old)) == b"lz4 of an old client" * 100
    wrong = bytearray(packed)
    wrong[6 if not packed[4] & 8 else 14] ^= 0x55
    with pytest.raises(CompressionError, match="checksum"):
        decompress(Compression.LZ4, wrong)


def test_crc32c_is_the_castagnoli_polynomial() -> None:
    assert crc32c(b"123456789") == 0xE3069283
