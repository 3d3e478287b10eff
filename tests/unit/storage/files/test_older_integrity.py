"""What earlier versions kept in several files is taken over as far as it is true, and removed."""

import pytest

from ottla.base.files import replace_file
from ottla.base.ids import parse_uuid
from ottla.base.partitions import TopicPartition
from ottla.storage.files.checksummed import with_checksum
from ottla.storage.files.older_integrity import (
    SEAMS,
    WITNESS,
    OlderIntegrity,
    is_older_file,
    read_older,
    remove_older,
)
from ottla.testing import FakeFileSystem

TOPIC_ID = "AQIDBAUGBwgJCgsMDQ4PEA"
SUMS = f"{0:020d}.ottla-witness.deleted"


@pytest.fixture
def disk() -> FakeFileSystem:
    disk = FakeFileSystem()
    disk.make_directory("t-0")
    return disk


def put(disk: FakeFileSystem, name: str, content: bytes) -> None:
    replace_file(disk, f"t-0/{name}", content)


@pytest.mark.parametrize(
    ("content", "known"),
    [
        (
            f"0\n{TOPIC_ID}\n6\n",
            OlderIntegrity(topic_id=parse_uuid(TOPIC_ID), partition=None, gapless_from=6),
        ),
        (
            "1\n-\n-\nmy topic 12\n",
            OlderIntegrity(
                topic_id=None, partition=TopicPartition("my topic", 12), gapless_from=None
            ),
        ),
        (
            f"2\n{TOPIC_ID}\n6\nt 0\naborts indexed\n",
            OlderIntegrity(
                topic_id=parse_uuid(TOPIC_ID),
                partition=TopicPartition("t", 0),
                gapless_from=6,
                aborts_are_indexed=True,
            ),
        ),
    ],
)
def test_each_version_is_read(disk: FakeFileSystem, content: str, known: OlderIntegrity) -> None:
    put(disk, WITNESS, with_checksum(content.encode()))
    assert read_older(disk, "t-0") == known


def test_the_gap_checkpoint_had_a_file_of_its_own(disk: FakeFileSystem) -> None:
    put(disk, WITNESS, with_checksum(b"0\n-\n-\n"))
    put(disk, SEAMS, with_checksum(b"0\n17\n"))
    found = read_older(disk, "t-0")
    assert found is not None
    assert found.gap_checkpoint == 17
    put(disk, SEAMS, b"garbled")
    found = read_older(disk, "t-0")
    assert found is not None
    assert found.gap_checkpoint is None


def test_where_transaction_indexes_had_copies_the_log_is_walked_again(
    disk: FakeFileSystem,
) -> None:
    put(disk, WITNESS, with_checksum(b"2\n-\n-\nt 0\naborts indexed\n"))
    put(disk, SUMS, b"sums")
    found = read_older(disk, "t-0")
    assert found is not None
    assert not found.aborts_are_indexed


@pytest.mark.parametrize(
    "content",
    [
        b"0\n-\n-\n",
        with_checksum(b"3\n-\n-\nt 0\n-\n"),
        with_checksum(b"0\n-\n-\nt 0\n"),
        with_checksum(b"0\nnot-an-id\n-\n"),
        with_checksum(b"0\n-\nsix\n"),
        with_checksum(b""),
    ],
    ids=["no checksum", "later version", "wrong lines", "no id", "no number", "empty"],
)
def test_a_damaged_file_says_nothing(disk: FakeFileSystem, content: bytes) -> None:
    put(disk, WITNESS, content)
    assert read_older(disk, "t-0") is None


def test_without_the_file_nothing_is_known(disk: FakeFileSystem) -> None:
    assert read_older(disk, "t-0") is None


def test_all_of_them_are_removed_durably_and_nothing_else(disk: FakeFileSystem) -> None:
    cleaned = f"{5:020d}.ottla-witness.cleaned"
    others = [f"{0:020d}.log", f"{0:020d}.log.deleted", "ottla-witness.deleted.txt"]
    for name in (WITNESS, SEAMS, SUMS, cleaned, *others):
        put(disk, name, b"x")
    disk.sync_directory("t-0")
    assert all(is_older_file(name) for name in (WITNESS, SEAMS, SUMS, cleaned))
    assert not any(is_older_file(name) for name in others)
    remove_older(disk, "t-0")
    assert sorted(disk.list("t-0")) == sorted(others)
