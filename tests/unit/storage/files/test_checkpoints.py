"""Offset checkpoints, and how their errors name the line."""

import hypothesis.strategies as st
import pytest
from hypothesis import given

from ottla.base.errors import CorruptionError
from ottla.base.files import FileSystem, read_file
from ottla.storage.files.checkpoints import OffsetCheckpoint
from ottla.storage.files.filenames import is_legal_topic_name
from ottla.testing import FakeFileSystem

PATH = "replication-offset-checkpoint"
INT64 = st.integers(-(2**63), 2**63 - 1)
TOPICS = st.text("abcXYZ019._-", min_size=1, max_size=30).filter(is_legal_topic_name)


def disk_with(content: bytes) -> FileSystem:
    disk = FakeFileSystem()
    file = disk.open(PATH, create=True)
    file.pwrite(content, 0)
    file.close()
    return disk


def test_a_missing_or_empty_file_holds_nothing() -> None:
    assert OffsetCheckpoint(FakeFileSystem(), PATH).read() == {}
    assert OffsetCheckpoint(disk_with(b""), PATH).read() == {}


def test_the_text_is_kafkas() -> None:
    disk = FakeFileSystem()
    OffsetCheckpoint(disk, PATH).write({("b", 1): 20, ("a", 0): 10})
    assert read_file(disk, PATH) == b"0\n2\nb 1 20\na 0 10\n"
    OffsetCheckpoint(disk, PATH).write({})
    assert read_file(disk, PATH) == b"0\n0\n"


@pytest.mark.parametrize("content", [b"0\n1\na 0 10", b"0\r\n1\r\na 0 10\r\n", b"0\n1\na  0\t10\n"])
def test_what_kafka_reads_is_read(content: bytes) -> None:
    content = content.replace(b"\t", b"  ")
    assert OffsetCheckpoint(disk_with(content), PATH).read() == {("a", 0): 10}


@pytest.mark.slow
@given(st.dictionaries(st.tuples(TOPICS, st.integers(0, 2**31 - 1)), INT64, max_size=10))
def test_offsets_are_read_back(offsets: dict[tuple[str, int], int]) -> None:
    checkpoint = OffsetCheckpoint(FakeFileSystem(), PATH)
    checkpoint.write(offsets)
    assert checkpoint.read() == offsets
    assert list(checkpoint.read()) == list(offsets)


@pytest.mark.parametrize(
    ("content", "line", "position"),
    [
        (b"1\n0\n", 1, 0),
        (b"x\n", 1, 0),
        (b"\n", 1, 0),
        (b"0", 1, 1),
        (b"0\n", 1, 2),
        (b"0\nx\n", 2, 2),
        (b"0\n1\na 0\n", 3, 4),
        (b"0\n1\na 0 1 2\n", 3, 4),
        (b"0\n2\na 0 1\na b c\n", 4, 10),
        (b"0\n1\na 0 9223372036854775808\n", 3, 4),
        (b"0\n1\na 2147483648 0\n", 3, 4),
        (b"0\n1\na/b 0 0\n", 3, 4),
        (b"0\n1\na 0 \xff\n", 3, 4),
        (b"0\n1\na 0 +1\n", 3, 4),
        (b"0\n2\na 0 1\n", 3, 10),
        (b"0\n0\na 0 1\n", 3, 10),
        (b"0\n1\na 0 1\n\n", 4, 10),
    ],
)
def test_an_error_names_the_line(content: bytes, line: int, position: int) -> None:
    with pytest.raises(CorruptionError, match=rf"line {line}\b") as error:
        OffsetCheckpoint(disk_with(content), PATH).read()
    assert (error.value.path, error.value.position) == (PATH, position)


@given(st.binary(max_size=60) | st.text("0123 ab\n-", max_size=60).map(str.encode))
def test_any_bytes_are_offsets_or_corruption(content: bytes) -> None:
    try:
        OffsetCheckpoint(disk_with(content), PATH).read()
    except CorruptionError as error:
        assert error.path == PATH  # noqa: PT017


def test_a_crash_leaves_the_old_offsets_or_the_new() -> None:
    disk = FakeFileSystem()
    checkpoint = OffsetCheckpoint(disk, PATH)
    checkpoint.write({("a", 0): 1})
    checkpoint.write({("a", 0): 2})
    assert OffsetCheckpoint(disk.crash(), PATH).read() == {("a", 0): 2}
