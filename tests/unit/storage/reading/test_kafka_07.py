"""Files of Kafka 0.7: by hand, by a generator of the page's grammar, damaged and cut short."""

from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.base.errors import CorruptionError, UserError
from ottla.base.files import OsFileSystem
from ottla.base.partitions import TopicPartition
from ottla.storage.reading.kafka_07 import old_messages, old_partitions
from tests.support.kafka_07 import GZIP, SNAPPY, message, wrapper, write_log

PLACE = TopicPartition("my_topic", 1)
BY_HAND = bytes.fromhex(
    "0000000a 00 3610a686 68656c6c6f"  # magic 0, "hello"
    "0000000b 01 00 3610a686 68656c6c6f"  # magic 1, no codec
    "00000005 00 00000000"  # nothing
)


WRAPPED_BY_HAND = bytes.fromhex(
    "00000028 01 01 9b3ce183"  # magic 1, GZIP
    "1f8b 08 00 00000000 00 ff"  # its header, and one block that is stored as it is
    "01 0b00 f4ff  00000007 00 d8932aac 6869  7aa82e8f 0b000000"  # magic 0, "hi"
    "00000027 01 02 30dc9c21"  # magic 1, Snappy
    "82534e4150505900 00000001 00000001 0000000d"  # its header, and a block of 13 bytes
    "0b 28  00000007 00 d8932aac 6869"  # 11 bytes, all as they are: magic 0, "hi"
)


def read(directory: Path) -> list[tuple[int, bytes]]:
    found = old_messages(OsFileSystem(), str(directory), PLACE)
    return [(one.position, one.payload) for one in found]


def test_a_file_by_hand_is_read_as_the_page_says(tmp_path: Path) -> None:
    write_log(tmp_path, "my_topic", 1, [BY_HAND])
    assert read(tmp_path) == [(0, b"hello"), (14, b"hello"), (29, b"")]
    assert old_partitions(OsFileSystem(), str(tmp_path)) == [PLACE]


def test_wrappers_by_hand_are_read_as_the_page_says(tmp_path: Path) -> None:
    write_log(tmp_path, "my_topic", 1, [WRAPPED_BY_HAND])
    assert read(tmp_path) == [(0, b"hi"), (44, b"hi")]


def test_positions_continue_over_files_and_wrappers_have_one(tmp_path: Path) -> None:
    first = wrapper([b"a", b"b"], GZIP) + message(b"c")
    write_log(tmp_path, "my_topic", 1, [first, wrapper([b"d", b"e"], SNAPPY)])
    at_c = len(wrapper([b"a", b"b"], GZIP))
    expected = [(0, b"a"), (0, b"b"), (at_c, b"c"), (len(first), b"d"), (len(first), b"e")]
    assert read(tmp_path) == expected


entries = st.one_of(
    st.builds(
        lambda payload, magic: ([payload], message(payload, magic=magic)),
        st.binary(max_size=50),
        st.sampled_from([0, 1]),
    ),
    st.builds(
        lambda payloads, codec, magic: (payloads, wrapper(payloads, codec, magic=magic)),
        st.lists(st.binary(max_size=20), min_size=1, max_size=4),
        st.sampled_from([GZIP, SNAPPY]),
        st.sampled_from([0, 1]),
    ),
)


@pytest.mark.slow
@given(files=st.lists(st.lists(entries, min_size=1), min_size=1), cut=st.integers(0, 8))
def test_what_the_grammar_writes_is_read_up_to_a_torn_end(
    files: list[list[tuple[list[bytes], bytes]]], cut: int
) -> None:
    contents = [b"".join(data for _, data in one) for one in files]
    expected = [payload for one in files for payloads, _ in one for payload in payloads]
    if cut:
        contents[-1] = contents[-1][:-cut]
        del expected[len(expected) - len(files[-1][-1][0]) :]
    with TemporaryDirectory() as directory:
        write_log(Path(directory), "my_topic", 1, contents)
        assert [payload for _, payload in read(Path(directory))] == expected


@pytest.mark.slow
@given(st.data())
def test_garbage_is_refused_and_nothing_else_is_raised(data: st.DataObject) -> None:
    content = bytearray(BY_HAND + wrapper([b"x", b"y"], GZIP))
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    with TemporaryDirectory() as directory:
        write_log(Path(directory), "my_topic", 1, [bytes(content)])
        with suppress(CorruptionError):
            read(Path(directory))


def test_damage_and_missing_files_are_named(tmp_path: Path) -> None:
    torn = message(b"a") + message(b"b")[:-1]
    write_log(tmp_path / "torn", "my_topic", 1, [torn, message(b"c")])
    with pytest.raises(CorruptionError, match=r"0\.kafka at byte 11: .*cut short before the next"):
        read(tmp_path / "torn")
    write_log(tmp_path / "gap", "my_topic", 1, [message(b"a"), message(b"b"), message(b"c")])
    (tmp_path / "gap" / "my_topic_1" / f"{11:020}.kafka").unlink()
    with pytest.raises(UserError, match=r"ends at 11, and the next file begins at 22"):
        read(tmp_path / "gap")
    changed = bytearray(message(b"a"))
    changed[-1] ^= 1
    write_log(tmp_path / "crc", "my_topic", 1, [bytes(changed)])
    with pytest.raises(CorruptionError, match="CRC mismatch"):
        read(tmp_path / "crc")
