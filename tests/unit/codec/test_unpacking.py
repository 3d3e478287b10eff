"""What is unpacked in a long request is the same as elsewhere, and is given back in parts."""

from collections.abc import Iterator
from itertools import count

import pytest

from ottla.base.turns import CURRENT, Turn
from ottla.codec.compression import (
    Compression,
    CompressionError,
    UnpackedSizeError,
    compress,
    decompress,
)
from ottla.codec.unpacking import HAS_PAGES, PART_SIZE, UnpackedMemory

PACKED = [one for one in Compression if one is not Compression.NONE]
PLAIN = b"a pot of tea " * 160_000


@pytest.fixture
def suspensions() -> Iterator[list[int]]:
    """The code of a test is a turn that is over at each check."""
    seen: list[int] = []
    numbers = count()
    turn = Turn(lambda: seen.append(next(numbers)), lambda: 1.0, max_elements=1, max_size=1)
    token = CURRENT.set(turn)
    yield seen
    CURRENT.reset(token)


@pytest.mark.parametrize("codec", Compression)
def test_a_long_request_unpacks_what_others_do(codec: Compression, suspensions: list[int]) -> None:
    memory = UnpackedMemory()
    for plain in (PLAIN, b"x", b""):
        packed = compress(codec, plain)
        unpacked = memory.unpack(codec, packed, len(PLAIN) + 1)
        assert bytes(unpacked[:]) == bytes(decompress(codec, packed)) == plain
    memory.give_back()


@pytest.mark.skipif(not HAS_PAGES, reason="pages cannot be given back here")
@pytest.mark.parametrize("codec", PACKED)
def test_memory_is_given_back_a_part_at_a_time(codec: Compression, suspensions: list[int]) -> None:
    memory = UnpackedMemory()
    memory.unpack(codec, compress(codec, PLAIN), len(PLAIN))
    before = len(suspensions)
    memory.give_back()
    assert len(suspensions) - before >= len(PLAIN) // PART_SIZE


@pytest.mark.parametrize("codec", PACKED)
def test_what_unpacks_to_more_than_it_may_is_refused_in_a_long_request_too(
    codec: Compression, suspensions: list[int]
) -> None:
    with pytest.raises(UnpackedSizeError, match="more than 999 bytes"):
        UnpackedMemory().unpack(codec, compress(codec, bytes(1000)), 999)


@pytest.mark.parametrize("codec", PACKED)
def test_bytes_that_are_cut_short_or_garbled_are_refused_in_a_long_request_too(
    codec: Compression, suspensions: list[int]
) -> None:
    packed = bytes(compress(codec, PLAIN[:100_000]))
    for wrong in (packed[: len(packed) // 2], packed[:-1], b"", b"\xff" * 30):
        try:
            expected: bytes | None = bytes(decompress(codec, wrong, len(PLAIN)))
        except CompressionError:
            expected = None
        try:
            found: bytes | None = bytes(UnpackedMemory().unpack(codec, wrong, len(PLAIN))[:])
        except CompressionError:
            found = None
        assert found == expected


def test_two_members_of_gzip_are_unpacked_in_a_long_request(suspensions: list[int]) -> None:
    packed = bytes(compress(Compression.GZIP, PLAIN)) + bytes(compress(Compression.GZIP, b"x"))
    unpacked = UnpackedMemory().unpack(Compression.GZIP, packed, len(PLAIN) + 1)
    assert bytes(unpacked[:]) == PLAIN + b"x"


def test_nothing_is_mapped_outside_of_a_long_request() -> None:
    packed = compress(Compression.GZIP, PLAIN)
    assert type(UnpackedMemory().unpack(Compression.GZIP, packed, len(PLAIN))) is bytes


@pytest.mark.skipif(not HAS_PAGES, reason="pages are given back on Linux only")
def test_where_there_is_no_memory_it_is_no_failure_of_a_disk(suspensions: list[int]) -> None:
    with pytest.raises(MemoryError, match="of memory to decompress a batch"):
        UnpackedMemory().unpack(Compression.GZIP, b"", 1 << 62)
