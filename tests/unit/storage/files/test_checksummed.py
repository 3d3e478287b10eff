"""Small files that end with a checksum, and are believed only when it fits."""

import pytest

from ottla.base.errors import CorruptionError
from ottla.base.files import replace_file
from ottla.storage.files.checksummed import (
    CHECKSUM_SIZE,
    is_one_bit_apart,
    read_checksummed,
    with_checksum,
    without_checksum,
)
from ottla.testing import FakeFileSystem


def upper(_: str, content: bytes) -> bytes:
    return content.upper()


def read(stored: bytes) -> bytes | None:
    disk = FakeFileSystem()
    replace_file(disk, "a", stored)
    return read_checksummed(disk, "a", upper)


@pytest.mark.parametrize("content", [b"", b"one\n", bytes(range(256))])
def test_what_a_checksum_was_put_to_is_read_again(content: bytes) -> None:
    stored = with_checksum(content)
    assert len(stored) == len(content) + CHECKSUM_SIZE
    assert stored.endswith(b"\n")
    assert without_checksum("a", stored) == content


def test_any_flipped_bit_is_noticed() -> None:
    stored = with_checksum(b"partition 7 at 99\n")
    for bit in range(8 * len(stored)):
        damaged = bytearray(stored)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(CorruptionError, match="the checksum does not match"):
            without_checksum("a", bytes(damaged))


@pytest.mark.parametrize("size", range(CHECKSUM_SIZE))
def test_less_than_a_checksum_is_damage(size: int) -> None:
    with pytest.raises(CorruptionError):
        without_checksum("a", b"0" * size)


def test_a_file_is_parsed_without_its_checksum() -> None:
    assert read(with_checksum(b"one")) == b"ONE"


def test_a_file_that_is_missing_or_empty_says_nothing_and_is_no_damage(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert read_checksummed(FakeFileSystem(), "a", upper) is None
    assert read(b"") is None
    assert caplog.text == ""


def test_a_damaged_file_is_named_and_counts_as_missing(caplog: pytest.LogCaptureFixture) -> None:
    assert read(with_checksum(b"one")[:-2]) is None
    assert "a at byte 0: the checksum does not match; the file is ignored" in caplog.text


def test_one_bit_apart_is_neither_the_same_nor_two_bits_nor_another_size() -> None:
    assert is_one_bit_apart(b"\x00\x01", b"\x00\x03")
    assert not is_one_bit_apart(b"\x00\x01", b"\x00\x01")
    assert not is_one_bit_apart(b"\x00\x01", b"\x01\x00")
    assert not is_one_bit_apart(b"\x00", b"\x00\x01")
