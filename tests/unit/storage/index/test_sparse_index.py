"""What both indexes do with their file, shown on the offset index."""

from pathlib import Path

import pytest

from ottla.base.errors import CorruptionError
from ottla.base.files import FileSystem, OsFileSystem, read_file
from ottla.storage.index.offset_index import OffsetIndex
from ottla.storage.index.sparse_index import WARM_SIZE
from ottla.storage.index.time_index import TimeIndex
from ottla.testing import FakeFileSystem

SIZE = 100 * 8


@pytest.fixture(params=["os", "fake"])
def disk(request: pytest.FixtureRequest) -> FileSystem:
    return OsFileSystem() if request.param == "os" else FakeFileSystem()


@pytest.fixture
def path(disk: FileSystem, tmp_path: Path) -> str:
    disk.make_directory(str(tmp_path))
    return str(tmp_path / "0.index")


def filled(disk: FileSystem, path: str, count: int, size: int = SIZE) -> OffsetIndex:
    index = OffsetIndex(disk, path, base_offset=0, max_index_size=size)
    assert index.entry_count == 0
    for number in range(1, count + 1):
        index.append(number, 10 * number)
    return index


def size_of(disk: FileSystem, path: str) -> int:
    status = disk.status(path)
    assert status is not None
    return status.size


def test_nothing_is_made_before_the_first_use(disk: FileSystem, path: str) -> None:
    index = OffsetIndex(disk, path, base_offset=0)
    index.close()
    assert disk.status(path) is None
    assert index.entry_count == 0
    assert size_of(disk, path) == 0
    index.append(1, 10)
    assert size_of(disk, path) == index.size == 10 * 1024 * 1024
    index.close()


@pytest.mark.parametrize("kind", [OffsetIndex, TimeIndex])
def test_a_file_without_entries_is_empty_as_kafkas_tools_take_zeros_for_one(
    disk: FileSystem, path: str, kind: type[OffsetIndex] | type[TimeIndex]
) -> None:
    index = kind(disk, path, base_offset=80, max_index_size=SIZE)
    assert (index.entry_count, size_of(disk, path)) == (0, 0)
    index.append(84, 85)
    assert size_of(disk, path) == index.size
    index.truncate_to(80)
    assert (index.entry_count, size_of(disk, path)) == (0, 0)
    assert index.max_entry_count == SIZE // kind.ENTRY.size
    index.append(84, 85)
    index.truncate_to(0)
    index.abandon()
    reopened = kind(disk, path, base_offset=80)
    assert reopened.resize(SIZE)
    assert (size_of(disk, path), reopened.max_entry_count) == (0, SIZE // kind.ENTRY.size)
    reopened.append(84, 85)
    assert size_of(disk, path) == reopened.size
    reopened.close()


def test_a_new_file_is_as_long_as_whole_entries_allow(disk: FileSystem, path: str) -> None:
    index = OffsetIndex(disk, path, base_offset=0, max_index_size=31)
    assert (index.size, index.max_entry_count) == (24, 3)
    index.abandon()


@pytest.mark.parametrize("count", [0, 1, 2, 50, 99, 100])
def test_the_count_is_found_again_before_the_zero_tail(
    disk: FileSystem, path: str, count: int
) -> None:
    filled(disk, path, count).abandon()
    assert size_of(disk, path) == (SIZE if count else 0)
    for writable in (True, False):
        index = OffsetIndex(disk, path, base_offset=0, writable=writable)
        assert index.entry_count == count
        assert index.lookup(1000) == (count, 10 * count)
        index.abandon()
    assert size_of(disk, path) == (SIZE if count else 0)


@pytest.mark.parametrize("count", [0, 1, 2, 50, 100])
def test_closing_trims_to_the_entries(disk: FileSystem, path: str, count: int) -> None:
    filled(disk, path, count).close()
    assert size_of(disk, path) == count * 8
    index = OffsetIndex(disk, path, base_offset=0)
    assert index.entry_count == count
    assert index.is_full
    index.close()


def test_a_trimmed_index_grows_again_by_resizing(disk: FileSystem, path: str) -> None:
    index = filled(disk, path, 5)
    index.trim()
    assert index.is_full
    assert index.resize(SIZE)
    assert not index.resize(SIZE + 7)
    index.append(6, 60)
    assert index.lookup(6) == (6, 60)
    assert index.entry_count == 6
    index.close()


def test_resizing_never_cuts_entries_off(disk: FileSystem, path: str) -> None:
    index = filled(disk, path, 5)
    with pytest.raises(AssertionError, match="cut"):
        index.resize(39)
    index.close()


def test_truncated_entries_do_not_come_back(disk: FileSystem, path: str) -> None:
    index = filled(disk, path, 100)
    index.truncate_to(41)
    assert index.size == SIZE
    index.abandon()
    index = OffsetIndex(disk, path, base_offset=0)
    assert index.entry_count == 40
    index.truncate_to(0)
    assert index.entry_count == 0
    assert not any(read_file(disk, path))
    index.close()


def test_an_index_follows_its_file_to_a_new_name(disk: FileSystem, path: str) -> None:
    index = filled(disk, path, 3)
    index.rename(path + ".deleted")
    assert index.path == path + ".deleted"
    assert disk.status(path) is None
    index.append(4, 40)
    index.close()
    assert index.lookup(4) == (4, 40)
    index.delete()
    assert disk.status(path + ".deleted") is None


def test_an_index_not_made_yet_can_be_renamed_and_deleted(disk: FileSystem, path: str) -> None:
    index = OffsetIndex(disk, path, base_offset=0)
    index.rename(path + ".swap")
    index.delete()
    assert index.path == path + ".swap"
    assert not index.is_open


def test_an_index_of_a_renamed_directory_is_reported(disk: FileSystem, path: str) -> None:
    index = filled(disk, path, 3)
    disk.rename(path, path + ".moved")
    index.renamed(path + ".moved")
    index.close()
    assert index.entry_count == 3
    index.close()


def test_synced_entries_survive_a_power_cut() -> None:
    disk = FakeFileSystem()
    index = filled(disk, "0.index", 7)
    index.sync()
    disk.sync_directory(".")
    index.append(8, 80)
    after = OffsetIndex(disk.crash(), "0.index", base_offset=0)
    assert after.entry_count in (7, 8)
    assert after.lookup(7) == (7, 70)


def test_reading_makes_no_file(disk: FileSystem, path: str) -> None:
    index = OffsetIndex(disk, path, base_offset=0, writable=False)
    with pytest.raises(FileNotFoundError):
        index.lookup(1)
    assert disk.status(path) is None


def test_a_reader_keeps_its_entries_when_the_file_is_cut(disk: FileSystem, path: str) -> None:
    writer = filled(disk, path, 50)
    reader = OffsetIndex(disk, path, base_offset=0, writable=False)
    assert reader.entry_count == 50
    writer.truncate_to(0)
    writer.close()
    assert reader.lookup(50) == (50, 500)
    reader.close()
    assert size_of(disk, path) == 0


def test_a_broken_last_entry_fails_the_sanity_check(disk: FileSystem, path: str) -> None:
    filled(disk, path, 3).close()
    file = disk.open(path, writable=True)
    file.truncate(21)
    file.close()
    index = OffsetIndex(disk, path, base_offset=0, writable=False)
    with pytest.raises(CorruptionError, match="multiple") as error:
        index.sanity_check()
    assert error.value.position == 16
    assert index.entry_count == 2
    index.close()


def test_a_sane_index_passes_the_sanity_check(disk: FileSystem, path: str) -> None:
    index = filled(disk, path, 0)
    index.sanity_check()
    index.append(1, 10)
    index.sanity_check()
    index.close()


def test_lookups_agree_inside_and_outside_the_warm_section(disk: FileSystem, path: str) -> None:
    warm = WARM_SIZE // 8
    count = 2 * warm + 3
    index = filled(disk, path, count, size=count * 8)
    for offset in (1, 2, warm, count - warm - 1, count - warm, count - warm + 1, count):
        assert index.lookup(offset) == (offset, 10 * offset)
    assert index.lookup(0) == (0, 0)
    index.close()
