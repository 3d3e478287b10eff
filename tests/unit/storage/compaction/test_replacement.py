"""Cleaned segments take the place of their sources, and of nothing else."""

import pytest

from ottla.storage.compaction.compaction import CompactionResult, Surroundings, compact
from ottla.storage.compaction.key_filter import PlainKeyFilter
from ottla.storage.compaction.replacement import (
    fits,
    remove_all_cleaned,
    remove_cleaned,
    replace_segments,
)
from ottla.storage.log.partition_log import PartitionLog
from ottla.testing import CrashMode, FakeFileSystem
from tests.support.compacting import COMPACTED, MEMORY, Keeper, Roll, Write, keeper_of, plan
from tests.support.compacting import stored as stored_of
from tests.support.logs import NOW_MS, open_log

DIRECTORY = "data/t-0"


@pytest.fixture
def disk() -> FakeFileSystem:
    return FakeFileSystem()


@pytest.fixture
def keeper(disk: FakeFileSystem) -> Keeper:
    keeper = keeper_of(disk)
    for value in (b"1", b"2", b"3"):
        keeper.carry_out(Write(((b"a", value), (b"b", value))))
        keeper.carry_out(Roll())
    keeper.finish()
    return keeper


def cleaned(log: PartitionLog, disk: FakeFileSystem) -> CompactionResult:
    made = plan(log, disk)
    assert made is not None
    key_filter = PlainKeyFilter(MEMORY.size, MEMORY.load_factor)
    return compact(made, key_filter, Surroundings(file_system=disk))


def names(disk: FakeFileSystem, suffix: str) -> list[str]:
    return sorted(one for one in disk.list(DIRECTORY) if one.endswith(suffix))


def test_the_cleaned_files_become_the_logs_and_the_old_ones_wait_to_go(
    keeper: Keeper, disk: FakeFileSystem
) -> None:
    log, result = keeper.log, cleaned(keeper.log, disk)
    contents = [
        disk.open(f"{DIRECTORY}/{name}").pread(1 << 20, 0) for name in names(disk, ".log.cleaned")
    ]
    replaced = {one for group in result.groups for one in group.replaced}
    deleted = replace_segments(log, result.groups, disk, NOW_MS)
    assert stored_of(log) == b"".join(contents)
    assert names(disk, ".cleaned") == names(disk, ".swap") == []
    assert {int(one.split(".")[0]) for one in names(disk, ".log.deleted")} == replaced
    for one in deleted:
        one.remove()
    assert names(disk, ".deleted") == []


def test_it_is_durable_when_it_returns(keeper: Keeper, disk: FakeFileSystem) -> None:
    result = cleaned(keeper.log, disk)
    replace_segments(keeper.log, result.groups, disk, NOW_MS)
    stored = stored_of(keeper.log)
    after = open_log(disk.crash(CrashMode.STRICT), COMPACTED)
    assert stored_of(after) == stored


def test_segments_that_are_gone_by_now_are_not_replaced(
    keeper: Keeper, disk: FakeFileSystem
) -> None:
    result = cleaned(keeper.log, disk)
    assert fits(keeper.log, result.groups)
    keeper.log.maintenance.retire({keeper.log.segments.first.base_offset}, by=())
    assert not fits(keeper.log, result.groups)


def test_a_pass_that_is_given_up_leaves_nothing(keeper: Keeper, disk: FakeFileSystem) -> None:
    result = cleaned(keeper.log, disk)
    made = names(disk, ".cleaned")
    assert made
    before = sorted(set(names(disk, "")) - set(made))
    remove_cleaned(disk, DIRECTORY, result.groups)
    assert names(disk, "") == before
    cleaned(keeper.log, disk)
    remove_all_cleaned(disk, DIRECTORY)
    assert names(disk, "") == before
    remove_all_cleaned(disk, "data/of-a-topic-that-is-deleted")
