"""A segment that goes is out of sight at once, and its bytes stay for those who read them."""

import pytest

from ottla.base.files import join
from ottla.storage.log.deleted_segment import DeletedSegment
from ottla.storage.log.partition_log import PartitionLog
from ottla.testing import CrashMode, FakeFileSystem
from tests.support.logs import fill, open_log, values

DIRECTORY = "data/t-0"


def names(disk: FakeFileSystem, base_offset: int) -> set[str]:
    return {one for one in disk.list(DIRECTORY) if one.startswith(f"{base_offset:020d}.")}


@pytest.fixture
def disk() -> FakeFileSystem:
    return FakeFileSystem()


@pytest.fixture
def log(disk: FakeFileSystem) -> PartitionLog:
    log = open_log(disk)
    fill(log, 12)
    assert len(log.segments.values) == 3
    return log


def taken_out(disk: FakeFileSystem, log: PartitionLog) -> DeletedSegment:
    middle = log.segments.values[1]
    snapshot = join(DIRECTORY, f"{middle.base_offset:020d}.snapshot")
    return DeletedSegment(disk, middle, snapshot)


def test_all_its_files_are_renamed_and_then_removed(
    disk: FakeFileSystem, log: PartitionLog
) -> None:
    base_offset = log.segments.values[1].base_offset
    before = names(disk, base_offset)
    deleted = taken_out(disk, log)
    assert names(disk, base_offset) == {f"{one}.deleted" for one in before}
    assert deleted.log_path == join(DIRECTORY, f"{base_offset:020d}.log.deleted")
    deleted.remove()
    assert names(disk, base_offset) == set()
    deleted.remove()  # what is gone needs no removal


def test_a_reader_with_the_log_file_open_continues(disk: FakeFileSystem, log: PartitionLog) -> None:
    reader = disk.open(log.segments.values[1].log.path)
    before = reader.pread(1000, 0)
    taken_out(disk, log).remove()
    assert before
    assert reader.pread(1000, 0) == before


def test_a_crash_at_any_rename_leaves_a_log_without_it_or_with_it(
    disk: FakeFileSystem, log: PartitionLog
) -> None:
    """The log goes first: indexes without one are nothing that anybody would read."""
    whole = values(log)
    first, following = log.segments.values[:2]
    deleted = DeletedSegment(disk, first, None)
    after = disk.crash(CrashMode.KEEP)
    # As if the process had died after the first rename.
    for path in deleted.paths[1:]:
        after.rename(path, path.removesuffix(".deleted"))
    assert values(open_log(after)) == whole[following.base_offset :]
    assert names(after, first.base_offset) == set()
