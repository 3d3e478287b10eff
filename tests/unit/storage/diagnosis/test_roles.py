"""Names in a log directory, and the order in which they are listed."""

import pytest

from ottla.base.errors import UserError
from ottla.storage.diagnosis.roles import (
    DirectoryKind,
    Role,
    describe,
    directory_kind,
    files_in_order,
    partitions_in_order,
)
from ottla.testing import FakeFileSystem


def disk_with(*paths: str) -> FakeFileSystem:
    disk = FakeFileSystem()
    for path in paths:
        disk.make_directory(path.rpartition("/")[0])
        disk.open(path, create=True).close()
    return disk


@pytest.mark.parametrize(
    ("name", "role"),
    [
        ("00000000000000000007.log", Role.LOG),
        ("00000000000000000007.index.deleted", Role.OFFSET_INDEX),
        ("00000000000000000007.timeindex.swap", Role.TIME_INDEX),
        ("00000000000000000007.txnindex.cleaned", Role.TRANSACTION_INDEX),
        ("00000000000000000007.snapshot", Role.PRODUCER_SNAPSHOT),
        ("00000000000000000007.log.cut-4096", Role.LOG),
        ("leader-epoch-checkpoint", Role.LEADER_EPOCHS),
        ("recovery-point-offset-checkpoint", Role.OFFSET_CHECKPOINT),
        ("00000000000000000012-0000000001.checkpoint", Role.METADATA_SNAPSHOT),
        ("bootstrap.checkpoint", Role.METADATA_SNAPSHOT),
        ("ottla-metadata.written", Role.OTTLA_WRITTEN),
        ("ottla-topics.json", Role.UNKNOWN),
        ("7.log", Role.UNKNOWN),
        ("notes.txt", Role.UNKNOWN),
    ],
)
def test_a_name_says_what_a_file_is(name: str, role: Role) -> None:
    assert describe(name).role is role


def test_only_files_that_are_in_use_are_live() -> None:
    assert describe("00000000000000000007.log").is_live_segment_file
    assert not describe("00000000000000000007.log.deleted").is_live_segment_file
    assert not describe("00000000000000000007.log.cut-9").is_live_segment_file
    assert not describe("meta.properties").is_live_segment_file


def test_a_partition_is_listed_segment_by_segment() -> None:
    names = [
        "partition.metadata", "leader-epoch-checkpoint",
        "00000000000000000000.log", "00000000000000000000.index",
        "00000000000000000000.timeindex",
        "00000000000000000010.log", "00000000000000000010.snapshot", "strange",
    ]  # fmt: skip
    disk = disk_with(*(f"d/{name}" for name in names))
    assert files_in_order(disk, "d") == [f"d/{name}" for name in names]


def test_partitions_are_listed_by_number() -> None:
    disk = disk_with("d/t-10/a", "d/t-2/a", "d/other/a", "d/s-0/a")
    assert partitions_in_order(disk, "d") == ["d/s-0", "d/t-2", "d/t-10"]


def test_a_directory_is_known_by_its_content() -> None:
    disk = disk_with("copy/00000000000000000000.log", "data/t-0/a", "home/letter")
    assert directory_kind(disk, "copy") is DirectoryKind.PARTITION
    assert directory_kind(disk, "data") is DirectoryKind.LOG_DIRECTORY
    with pytest.raises(UserError, match="home holds no Kafka log"):
        directory_kind(disk, "home")
