"""Messages with their version in front."""

import pytest

from ottla.base.errors import ApiError, ProtocolError
from ottla.codec.fields import int32
from ottla.codec.schema import Message
from ottla.codec.versioned import decode_versioned, encode_versioned, version_of


class Count(Message, versions="1-2"):
    low: int = int32("1+")
    high: int = int32("2+")


def test_the_version_stands_before_the_message() -> None:
    assert encode_versioned(Count(low=5), 1) == b"\0\1\0\0\0\5"
    assert version_of(b"\0\1rest") == 1


@pytest.mark.parametrize("version", [1, 2])
def test_each_version_reads_back(version: int) -> None:
    count = Count(low=1, high=2 if version == 2 else 0)
    assert decode_versioned(Count, encode_versioned(count, version)) == count


def test_a_newer_version_is_read_as_the_newest_when_that_is_asked_for() -> None:
    data = b"\0\x09\0\0\0\1\0\0\0\2something new"
    assert decode_versioned(Count, data, newer_is_newest=True) == Count(low=1, high=2)
    with pytest.raises(ProtocolError, match="no version 9"):
        decode_versioned(Count, data)


@pytest.mark.parametrize("data", [b"", b"\0", b"\0\0\0\0\0\0", b"\xff\xff", b"\0\1\0"])
def test_what_is_no_message_is_a_protocol_error(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode_versioned(Count, data, newer_is_newest=True)


def test_a_version_that_cannot_carry_the_message_is_refused() -> None:
    with pytest.raises(ApiError):
        encode_versioned(Count(high=1), 1)
