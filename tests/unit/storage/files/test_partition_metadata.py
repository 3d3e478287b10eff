"""The topic id of a directory."""

import hypothesis.strategies as st
import pytest
from hypothesis import given

from ottla.base.errors import CorruptionError
from ottla.base.files import read_file
from ottla.base.ids import ZERO_UUID, Uuid, parse_uuid
from ottla.storage.files.partition_metadata import (
    judge_topic_id,
    read_topic_id,
    write_topic_id,
)
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


ANOTHER = parse_uuid("AwnkyiG4SrqCMhmWMTi7iQ")


@pytest.mark.parametrize(
    ("content", "recorded", "topic_id", "reason"),
    [
        (None, TOPIC_ID, TOPIC_ID, None),
        (None, None, None, None),
        (TEXT, TOPIC_ID, TOPIC_ID, None),
        (TEXT, None, TOPIC_ID, None),
        (TEXT[:-1], TOPIC_ID, TOPIC_ID, "is not a Kafka id"),
        (TEXT[:-1], None, None, "is not a Kafka id"),
        (TEXT.replace(b"Dwnk", b"Ewnk"), TOPIC_ID, TOPIC_ID, "differs by one bit from the id in"),
        (TEXT, ANOTHER, None, "has id DwnkyiG4SrqCMhmWMTi7iw, but"),
    ],
)
def test_the_file_is_judged_by_the_id_that_is_recorded(
    content: bytes | None, recorded: Uuid | None, topic_id: Uuid | None, reason: str | None
) -> None:
    disk = FakeFileSystem() if content is None else disk_with(content)
    known, found = judge_topic_id(disk, PATH, recorded)
    assert known == topic_id
    assert (found is None) == (reason is None)
    if found is not None and reason is not None:
        assert reason in found.reason
        assert found.topic_id == topic_id


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
