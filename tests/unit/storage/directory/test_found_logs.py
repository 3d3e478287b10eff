"""What a start finds under the names of partitions, and what it repairs before it decides."""

import pytest

from ottla.base.files import join, replace_file
from ottla.base.ids import Uuid
from ottla.base.partitions import TopicPartition
from ottla.storage.directory.found_logs import FoundLog, find_logs
from ottla.storage.files.filenames import INTEGRITY, PARTITION_METADATA, DirectoryState
from ottla.storage.files.partition_metadata import read_topic_id, write_topic_id
from ottla.testing import FakeFileSystem
from tests.support.logs import DIRECTORY, TOPIC_ID, fill, open_directory

METADATA = join(DIRECTORY, "t-0", PARTITION_METADATA)
OTHER_ID = Uuid(bytes(reversed(TOPIC_ID)))


@pytest.fixture
def disk() -> FakeFileSystem:
    disk = FakeFileSystem()
    directory = open_directory(disk)
    fill(directory.create_log("t", 0, TOPIC_ID), 1)
    directory.close()
    return disk


def only_one(disk: FakeFileSystem) -> FoundLog:
    (found,) = find_logs(disk, DIRECTORY)
    return found


def test_directories_with_a_partitions_name_are_found_whatever_state_that_says(
    disk: FakeFileSystem,
) -> None:
    unique = "0123456789abcdef0123456789abcdef"
    for name in (f"a-1.{unique}-delete", f"b-2.{unique}-future", f"c-3.{unique}-stray"):
        disk.make_directory(join(DIRECTORY, name))
        replace_file(disk, join(DIRECTORY, name, "00000000000000000000.log"), b"")
    for name in ("no partition", "__cluster_metadata-0"):
        disk.make_directory(join(DIRECTORY, name))
    replace_file(disk, join(DIRECTORY, "file-0"), b"")
    listed = find_logs(disk, DIRECTORY)
    found = {one.key: one.name.state for one in listed if one.obstacle is None}
    assert found == {
        TopicPartition("a", 1): DirectoryState.DELETE,
        TopicPartition("b", 2): DirectoryState.FUTURE,
        TopicPartition("c", 3): DirectoryState.STRAY,
        TopicPartition("t", 0): DirectoryState.LIVE,
    }
    (in_the_way,) = [one for one in listed if one.obstacle is not None]
    assert in_the_way.key == ("file", 0)


@pytest.mark.parametrize(
    ("name", "is_obstacle"),
    [
        ("00000000000000000007.log", True),
        *(
            (name, False)
            for name in (
                "00000000000000000007.log.swap",
                "00000000000000000007.index",
                "00000000000000000007.txnindex.deleted",
                "00000000000000000007.snapshot",
                "00000000000000000007.timeindex.cleaned",
                "leader-epoch-checkpoint.tmp",
            )
        ),
    ],
)
def test_a_folder_in_a_files_place_is_set_aside_and_in_a_logs_place_costs_the_partition(
    disk: FakeFileSystem, name: str, is_obstacle: bool
) -> None:
    disk.make_directory(join(DIRECTORY, "t-0", name))
    found = only_one(disk)
    assert (found.obstacle is not None) == is_obstacle
    names = disk.list(join(DIRECTORY, "t-0"))
    assert (name in names, name + ".damaged" in names) == (is_obstacle, not is_obstacle)


@pytest.mark.parametrize("files", [[], [PARTITION_METADATA + ".tmp"]])
def test_a_creation_that_a_crash_cut_off_is_undone(disk: FakeFileSystem, files: list[str]) -> None:
    disk.make_directory(join(DIRECTORY, "t-1"))
    for name in files:
        replace_file(disk, join(DIRECTORY, "t-1", name), b"version")
    assert only_one(disk).key == ("t", 0)
    assert "t-1" not in disk.list(DIRECTORY)


@pytest.mark.parametrize("damage", ["gone", "nonsense", "one bit"])
def test_an_id_that_the_integrity_file_knows_is_rebuilt(disk: FakeFileSystem, damage: str) -> None:
    disk.remove(METADATA)
    if damage == "nonsense":
        replace_file(disk, METADATA, b"nonsense")
    elif damage == "one bit":
        write_topic_id(disk, METADATA, Uuid(bytes([TOPIC_ID[0] ^ 1]) + TOPIC_ID[1:]))
    found = only_one(disk)
    assert (found.topic_id, found.damage) == (TOPIC_ID, None)
    if damage != "gone":
        assert read_topic_id(disk, METADATA) == TOPIC_ID


def test_two_ids_that_differ_are_a_persons_to_decide(disk: FakeFileSystem) -> None:
    disk.remove(METADATA)
    write_topic_id(disk, METADATA, OTHER_ID)
    found = only_one(disk)
    assert found.topic_id is None
    assert found.damage is not None
    assert INTEGRITY in found.damage.reason
    assert read_topic_id(disk, METADATA) == OTHER_ID


def test_a_directory_under_another_name_knows_its_home(disk: FakeFileSystem) -> None:
    disk.rename(join(DIRECTORY, "t-0"), join(DIRECTORY, "t-5"))
    found = only_one(disk)
    assert found.integrity is not None
    assert (found.key, found.integrity.partition) == (("t", 5), ("t", 0))
    disk.remove(join(DIRECTORY, "t-5", INTEGRITY))
    assert only_one(disk).integrity is None
