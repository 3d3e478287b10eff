"""Declared messages: what a version carries, what it refuses, and what it skips."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError, ProtocolError
from ottla.base.files import FileSlice
from ottla.base.ids import ZERO_UUID, Uuid
from ottla.codec.fields import (
    VersionRange,
    array,
    boolean,
    int8,
    int16,
    int32,
    nested,
    parse_versions,
    records,
    string,
    uuid,
)
from ottla.codec.primitives import Output, Records
from ottla.codec.schema import Message, Struct, reader, writer
from ottla.testing.file_system import FakeFileSystem


class Place(Struct):
    row: int = int16("0+")
    column: int = int16("0+", default=-1)


class Letter(Message, versions="0-3", flexible="2+"):
    """Holds one field of every kind; versions 2 and 3 are flexible."""

    sender: str = string("0+")
    reply_to: str | None = string("0+", nullable="1+")
    id: Uuid = uuid("0+")
    is_urgent: bool = boolean("1+")
    weight: int = int32("1+", default=7, ignorable=True)
    places: list[Place] = array(Place, "0+")
    numbers: list[int] | None = array(int32, "0+", nullable="1+")
    body: Records | None = records("0+", nullable="0+")
    seal: Place | None = nested(Place, "2+", nullable="2+")
    stamp: Place | None = nested(Place, "2+", tag=3)
    color: str | None = string("2+", default=None, nullable="2+", tag=0)
    age: int = int8("3+", default=-1, tag=1)


def encode(letter: Letter, version: int) -> bytes:
    output = Output()
    writer(Letter, version)(letter, output)
    assert output.size == len(output.data)
    return bytes(output.data)


def decode(data: bytes, version: int) -> Letter:
    letter, position = reader(Letter, version)(data, 0)
    assert position == len(data)
    return letter


def full_letter() -> Letter:
    return Letter(
        sender="Grüße",
        reply_to=None,
        id=Uuid(b"0123456789abcdef"),
        is_urgent=True,
        weight=12,
        places=[Place(row=1, column=2), Place(row=3)],
        numbers=[1, -1, 2**31 - 1],
        body=b"records",
        seal=Place(row=9, column=9),
        stamp=Place(row=4, column=4),
        color="red" * 50,
        age=3,
    )


def test_every_kind_of_field_survives_the_newest_version() -> None:
    assert decode(encode(full_letter(), 3), 3) == full_letter()


@pytest.mark.parametrize("version", range(4))
def test_a_letter_of_defaults_reads_as_one(version: int) -> None:
    assert decode(encode(Letter(body=b""), version), version) == Letter(body=b"")


def test_fixed_fields_and_lengths_are_big_endian() -> None:
    letter = Letter(sender="ab", reply_to="", places=[Place(row=258)], numbers=[1], body=None)
    expected = b"\0\2ab\0\0" + bytes(16) + b"\0\0\0\1\1\2\xff\xff\0\0\0\1\0\0\0\1"
    assert encode(letter, 0) == expected + b"\xff\xff\xff\xff"


def test_flexible_versions_count_from_one_and_end_in_tags() -> None:
    letter = Letter(sender="ab", reply_to=None, numbers=None, body=None, age=5)
    expected = b"\3ab\0" + bytes(16) + b"\0\0\0\0\7\1\0\0\xff"
    assert encode(letter, 3) == expected + b"\1\1\1\5"


def test_a_field_that_the_version_lacks_is_skipped_while_it_holds_its_default() -> None:
    assert decode(encode(Letter(weight=99, body=b""), 0), 0).weight == 7


@pytest.mark.parametrize(
    ("letter", "version"),
    [
        (Letter(is_urgent=True), 0),
        (Letter(seal=Place()), 1),
        (Letter(stamp=Place(row=1)), 1),
        (Letter(color="red"), 1),
        (Letter(age=0), 2),
        (Letter(reply_to=None), 0),
        (Letter(numbers=None), 0),
    ],
)
def test_a_value_that_the_version_cannot_carry_is_refused(letter: Letter, version: int) -> None:
    with pytest.raises(ApiError) as caught:
        encode(letter, version)
    assert caught.value.code is ErrorCode.UNSUPPORTED_VERSION


def test_a_tagged_struct_of_defaults_is_not_written() -> None:
    assert encode(Letter(stamp=Place()), 2) == encode(Letter(), 2)


def test_unknown_tagged_fields_are_skipped() -> None:
    plain = encode(Letter(body=b""), 3)
    assert plain.endswith(b"\0")
    unknown = plain[:-1] + b"\2" + b"\1\1\5" + b"\x82\1\x03abc"
    assert decode(unknown, 3) == Letter(body=b"", age=5)


def test_an_unknown_version_is_refused() -> None:
    for version in (-1, 4):
        with pytest.raises(ApiError, match="0-3"):
            reader(Letter, version)
        with pytest.raises(ApiError, match="0-3"):
            writer(Letter, version)


def test_records_are_a_view_of_the_buffer_that_was_read() -> None:
    frame = bytearray(encode(Letter(body=b"records"), 0))
    letter, _ = reader(Letter, 0)(memoryview(frame), 0)
    frame[-1] = ord("!")
    assert isinstance(letter.body, memoryview)
    assert bytes(letter.body) == b"record!"


@pytest.mark.parametrize("version", [1, 2])
def test_a_slice_of_a_file_is_spliced_in_without_being_read(version: int) -> None:
    file = FakeFileSystem().open("/log", create=True)
    file.pwrite(b"0123456789", 0)
    piece = FileSlice(file, 2, 5)
    output = Output()
    writer(Letter, version)(Letter(body=[b"ab", piece], seal=None), output)
    assert [one for _, one in output.slices] == [piece]
    assert b"23456" not in output.data
    assert output.size == len(output.read_all()) == len(output.data) + 5
    assert output.read_all() == encode(Letter(body=b"ab23456"), version)


def test_what_is_written_can_be_taken_back() -> None:
    file = FakeFileSystem().open("/log", create=True)
    output = Output()
    writer(Letter, 0)(Letter(body=FileSlice(file, 0, 3)), output)
    before = output.read_all(), output.size
    output.data += b"more"
    output.append_slice(FileSlice(file, 0, 4))
    output.cut_back(len(output.data) - 4, 1)
    assert (output.read_all(), output.size) == before


def cut(data: bytes) -> list[bytes]:
    return [data[:size] for size in range(len(data))]


@pytest.mark.parametrize("version", range(4))
def test_a_message_that_is_cut_short_is_a_protocol_error(version: int) -> None:
    letter = full_letter() if version == 3 else Letter(sender="ab", body=b"x", places=[Place()])
    for part in cut(encode(letter, version)):
        with pytest.raises(ProtocolError, match=f"Letter version {version}"):
            reader(Letter, version)(part, 0)


@pytest.mark.parametrize(
    ("version", "data", "reason"),
    [
        (0, b"\xff\xff", "sender is null"),
        (1, b"\0\0\xff\xfe", "negative"),
        (0, b"\0\1\xff", "utf-8"),
        (2, b"\xff\xff\xff\xff\xff\xff", "varint"),
        (2, b"\x81\x80\2" + b"a" * 40_000, "too long"),
        (0, b"\0\0\0\0" + bytes(16) + b"\x7f\xff\xff\xff" + bytes(50), "more elements"),
        (0, b"\0\0\0\0" + bytes(16) + b"\0\0\0\0\x7f\xff\xff\xff", "more elements"),
        (0, b"\0\0\0\0" + bytes(16) + bytes(8) + b"\0\0\0\x09abc", "cut short"),
    ],
)
def test_broken_bytes_are_named_in_the_error(version: int, data: bytes, reason: str) -> None:
    with pytest.raises(ProtocolError, match=reason):
        reader(Letter, version)(data, 0)


def test_a_tagged_field_must_be_as_long_as_it_says() -> None:
    plain = encode(Letter(body=b""), 3)[:-1]
    for tags in (b"\1\1\2\5\5", b"\1\3\1\0\0\0\0\0", b"\1\x09\x7f"):
        with pytest.raises(ProtocolError):
            reader(Letter, 3)(plain + tags, 0)


def test_bytes_after_a_message_are_left_alone() -> None:
    data = encode(full_letter(), 3)
    letter, position = reader(Letter, 3)(b"xx" + data + b"more", 2)
    assert (letter, position) == (full_letter(), 2 + len(data))


@given(st.binary(max_size=200), st.integers(0, 3))
def test_garbage_is_read_or_refused_with_our_error(data: bytes, version: int) -> None:
    try:
        _, position = reader(Letter, version)(data, 0)
    except ProtocolError:
        return
    assert position <= len(data)


def test_lists_and_structs_are_not_shared_between_messages() -> None:
    first, second = Letter(), Letter()
    first.places.append(Place())
    assert second.places == []
    assert (
        decode(encode(Letter(body=b""), 0), 0).places
        is not decode(encode(Letter(body=b""), 0), 0).places
    )


def test_messages_compare_by_value_and_show_their_fields() -> None:
    assert Place(row=1) == Place(row=1, column=-1)
    assert Place(row=1) != Place(row=2)
    assert Place() != Letter()
    assert repr(Place(row=1)) == "Place(row=1, column=-1)"
    assert Letter().id == ZERO_UUID


def test_a_misspelt_field_is_refused() -> None:
    with pytest.raises(TypeError):
        Place(rwo=1)  # type: ignore[call-arg]
    with pytest.raises(AttributeError):
        Place().rwo = 1  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("text", "expected"),
    [("3+", (3, 0x7FFF)), ("0-12", (0, 12)), ("7", (7, 7)), (None, (0, -1))],
)
def test_versions_are_written_as_kafka_does(text: str | None, expected: tuple[int, int]) -> None:
    assert parse_versions(text) == VersionRange(*expected)


def test_a_range_of_versions_knows_and_shows_what_is_in_it() -> None:
    assert [version for version in range(5) if version in VersionRange(1, 3)] == [1, 2, 3]
    assert (str(VersionRange(1, 3)), str(VersionRange(2, 2))) == ("1-3", "2")
