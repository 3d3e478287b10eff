"""The topic id of a directory."""

import hypothesis.strategies as st
import pytest
from hypothesis import given

from ottla.base.errors import CorruptionError
from ottla.base.files import read_file
from ottla.base.ids import ZERO_UUID, parse_uuid
from ottla.storage.files.partition_metadata import read_topic_id, write_topic_id
from ottla.testing import FakeFileSystem

PATH = "partition.metadata"
TEXT = b"version: 0\ntopic_id: DwnkyiG4SrqCMhmWMTi7iw"
TOPIC_ID = parse_uuid("DwnkyiG4SrqCMhmWMTi7iw")


def disk_with(content: bytes) -> FakeFileSystem:
    disk = FakeFileSystem()
    disk.open(PATH, create=True).pwrite(content, 0)
    return disk


def test_a_directory_without_the_file_has_no_topic_id() -> None:
    assert read_topic_id(FakeFileSystem(), PATH) is None


def test_the_text_is_kafkas() -> None:
    disk = FakeFileSystem()
    write_topic_id(disk, PATH, TOPIC_ID)
    assert read_file(disk, PATH) == TEXT


@pytest.mark.parametrize("content", [TEXT, TEXT + b"\n", TEXT.replace(b"\n", b"\r\n")])
def test_what_kafka_reads_is_read(content: bytes) -> None:
    assert read_topic_id(disk_with(content), PATH) == TOPIC_ID


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"version: 0\n",
        b"topic_id: DwnkyiG4SrqCMhmWMTi7iw\n",
        TEXT.replace(b"0", b"1"),
        TEXT[:-1],
        TEXT + b" more",
        TEXT.replace(b"Dwnk", b"Dw!k"),
        b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA",
    ],
)
def test_anything_else_is_corrupt(content: bytes) -> None:
    with pytest.raises(CorruptionError) as error:
        read_topic_id(disk_with(content), PATH)
    assert error.value.path == PATH


@pytest.mark.slow
@given(st.binary(min_size=16, max_size=16).filter(lambda topic_id: topic_id != ZERO_UUID))
def test_a_topic_id_is_read_back(topic_id: bytes) -> None:
    disk = FakeFileSystem()
    write_topic_id(disk, PATH, topic_id)
    assert read_topic_id(disk.crash(), PATH) == topic_id


@given(st.binary(max_size=60) | st.binary(max_size=30).map(TEXT[:21].__add__))
def test_any_bytes_are_a_topic_id_or_corruption(content: bytes) -> None:
    try:
        assert len(read_topic_id(disk_with(content), PATH) or b"") == 16
    except CorruptionError as error:
        assert error.path == PATH  # noqa: PT017
