"""Compaction over random histories: what a reader ends with stays, whoever compacts."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.storage.compaction.compaction import (
    CompactionPlan,
    CompactionResult,
    CompactionStats,
    Surroundings,
    compact,
)
from ottla.storage.compaction.key_filter import PlainKeyFilter
from ottla.storage.compaction.planning import MapMemory
from ottla.storage.compaction.shares import (
    copy_group,
    read_keys,
    transactions_before,
    transactions_in,
)
from ottla.testing import CrashMode, FakeFileSystem
from tests.support.compacting import (
    COMPACTED,
    KEY_FILTERS,
    MEMORY,
    STEPS,
    Step,
    clean,
    keeper_of,
    plan,
    stored,
    visible,
)
from tests.support.logs import NOW_MS, open_log

SMALL_MEMORY = MapMemory(size=24 * 20, load_factor=0.9)


@pytest.mark.slow
@given(STEPS)
def test_a_reader_ends_with_the_last_committed_value_of_each_key(steps: list[Step]) -> None:
    file_system = FakeFileSystem()
    keeper = keeper_of(file_system)
    for step in steps:
        keeper.carry_out(step)
    keeper.finish()
    wanted = {key: value for key, (_, value) in keeper.latest.items() if value is not None}
    before = keeper.log.log_end_offset
    clean(keeper.log, file_system)
    assert visible(keeper.log, keeper.aborted) == wanted
    # The tombstones' time has passed; they go with the next pass, and nothing comes back.
    clean(keeper.log, file_system, now_ms=NOW_MS + 2000)
    assert visible(keeper.log, keeper.aborted) == wanted
    assert keeper.log.log_end_offset == before
    offsets = [one.base_offset for one in keeper.log.segments.values]
    assert offsets == sorted(set(offsets))


@pytest.mark.slow
@given(STEPS)
def test_a_second_pass_at_the_same_time_changes_nothing(steps: list[Step]) -> None:
    file_system = FakeFileSystem()
    keeper = keeper_of(file_system)
    for step in steps:
        keeper.carry_out(step)
    keeper.finish()
    for _ in range(2):
        # The second pass sees markers whose data the first one took away.
        clean(keeper.log, file_system)
    once = stored(keeper.log)
    clean(keeper.log, file_system)
    assert stored(keeper.log) == once


@pytest.mark.slow
@given(STEPS, st.booleans())
def test_with_and_without_numpy_and_a_compiler_the_same_bytes_are_made(
    steps: list[Step], has_small_map: bool
) -> None:
    disk = FakeFileSystem()
    keeper = keeper_of(disk)
    for step in steps:
        keeper.carry_out(step)
    keeper.finish()
    memory = SMALL_MEMORY if has_small_map else MapMemory(size=24 * 1000, load_factor=0.9)
    outcomes = []
    for new_key_filter in KEY_FILTERS:
        copy = disk.crash(CrashMode.KEEP)
        log = open_log(copy, COMPACTED)
        made = plan(log, copy, memory=memory)
        if made is None:
            return
        key_filter = new_key_filter(memory.size, memory.load_factor)
        result = compact(made, key_filter, Surroundings(file_system=copy))
        outcomes.append((result, cleaned_files(copy)))
    assert all(one == outcomes[0] for one in outcomes)


def cleaned_files(disk: FakeFileSystem) -> dict[str, bytes]:
    return {
        name: disk.open(f"data/t-0/{name}").pread(1 << 20, 0)
        for name in disk.list("data/t-0")
        if name.endswith(".cleaned")
    }


@pytest.mark.slow
@given(STEPS, STEPS)
def test_in_shares_the_same_bytes_are_made(before: list[Step], steps: list[Step]) -> None:
    disk = FakeFileSystem()
    keeper = keeper_of(disk)
    for step in before:
        keeper.carry_out(step)
    keeper.finish()
    result = clean(keeper.log, disk)
    cleaned_until = result.end_offset if result else 0
    keeper.log.maintenance.reconfigure(replace(COMPACTED, cleanup_policy=("delete",)))
    for step in steps:
        keeper.carry_out(step)
    keeper.finish()
    made = plan(keeper.log, disk, cleaned_until=cleaned_until)
    if made is None:
        return
    one, other = disk.crash(CrashMode.KEEP), disk.crash(CrashMode.KEEP)
    key_filter = PlainKeyFilter(MEMORY.size, MEMORY.load_factor)
    whole = compact(made, key_filter, Surroundings(file_system=one))
    assert compact_in_shares(made, Surroundings(file_system=other)) == whole
    assert cleaned_files(other) == cleaned_files(one)


def compact_in_shares(made: CompactionPlan, around: Surroundings) -> CompactionResult:
    numbers = range(len(made.sources))
    seen = [transactions_in(made, number, around) for number in numbers]
    before = transactions_before(made, seen)
    last: dict[tuple[int, int], int] = {}
    clean_rows = []
    for number in numbers:
        for first, second, offset in read_keys(made, number, around):
            for row in zip(first.tolist(), second.tolist(), offset.tolist(), strict=True):
                if row[2] >= made.first_dirty_offset:
                    last[row[:2]] = row[2]
                else:
                    clean_rows.append(row)
    survivors = [*last.values(), *(row[2] for row in clean_rows if row[:2] not in last)]
    stats = CompactionStats(keys=len(last))
    groups = []
    # Backwards, for no group needs another.
    for group in reversed(made.groups(made.end_offset)):
        start = group[0].base_offset
        mine = [one for one in survivors if start <= one]
        cleaned, some = copy_group(made, group, np.array(mine, np.int64), before[start], around)
        groups.insert(0, cleaned)
        stats = stats.plus(some)
    return CompactionResult(groups=tuple(groups), end_offset=made.end_offset, stats=stats)


@pytest.mark.slow
@given(STEPS)
def test_several_passes_with_a_small_map_end_where_one_with_a_large_map_does(
    steps: list[Step],
) -> None:
    file_system = FakeFileSystem()
    keeper = keeper_of(file_system)
    for step in steps:
        keeper.carry_out(step)
    keeper.finish()
    wanted = {key: value for key, (_, value) in keeper.latest.items() if value is not None}
    end = keeper.log.segments.active.base_offset
    cleaned_until = 0
    while cleaned_until < end:
        result = clean(keeper.log, file_system, cleaned_until=cleaned_until, memory=SMALL_MEMORY)
        assert result is not None
        assert cleaned_until < result.end_offset <= end
        cleaned_until = result.end_offset
        assert visible(keeper.log, keeper.aborted) == wanted
