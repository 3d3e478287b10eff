"""A pass in shares makes the files that one pass makes."""

from ottla.storage.compaction.compaction import Surroundings, compact
from ottla.storage.compaction.key_filter import PlainKeyFilter
from ottla.storage.compaction.shares import (
    copy_group,
    read_keys,
    transactions_before,
    transactions_in,
)
from ottla.storage.compaction.transactions import NOTHING_SEEN
from ottla.testing import CrashMode, FakeFileSystem
from tests.support.compacting import (
    COMPACTED,
    MEMORY,
    End,
    Keeper,
    Roll,
    Write,
    keeper_of,
    plan,
)
from tests.support.logs import open_log

import numpy as np  # isort: skip


def filled(disk: FakeFileSystem) -> Keeper:
    """A transaction that is aborted begins in one segment and ends in another."""
    keeper = keeper_of(disk)
    for step in (
        Write(((b"a", b"1"), (b"b", b"1"))),
        Write(((b"a", b"aborted"),), producer=0),
        Roll(),
        Write(((b"b", b"2"), (None, b"without a key"))),
        End(0, is_commit=False),
        Roll(),
        Write(((b"c", b"3"),)),
    ):
        keeper.carry_out(step)
    keeper.finish()
    return keeper


def cleaned_files(disk: FakeFileSystem) -> dict[str, bytes]:
    return {
        name: disk.open(f"data/t-0/{name}").pread(1 << 20, 0)
        for name in disk.list("data/t-0")
        if name.endswith(".cleaned")
    }


def test_the_keys_of_committed_records_are_read_with_their_offsets() -> None:
    disk = FakeFileSystem()
    made = plan(filled(disk).log, disk)
    assert made is not None
    around = Surroundings(file_system=disk)
    parts = [one for number in range(len(made.sources)) for one in read_keys(made, number, around)]
    digests = {
        (int(high), int(low), int(offset))
        for highs, lows, offsets in parts
        for high, low, offset in zip(highs, lows, offsets, strict=True)
    }
    assert {offset for _, _, offset in digests} == {0, 1, 3, 6}
    keys = {offset: (high, low) for high, low, offset in digests}
    assert keys[1] == keys[3] != keys[0]


def test_a_transaction_is_seen_by_the_sources_after_the_one_in_which_it_begins() -> None:
    disk = FakeFileSystem()
    made = plan(filled(disk).log, disk)
    assert made is not None
    around = Surroundings(file_system=disk)
    seen = [transactions_in(made, number, around) for number in range(len(made.sources))]
    before = transactions_before(made, seen)
    assert list(before) == [one.base_offset for one in made.sources]
    assert before[0] == NOTHING_SEEN
    assert before[made.sources[1].base_offset] == seen[0] != NOTHING_SEEN


def test_groups_that_are_copied_apart_have_the_bytes_of_one_pass() -> None:
    disk = FakeFileSystem()
    filled(disk)
    whole, shared = disk.crash(CrashMode.KEEP), disk.crash(CrashMode.KEEP)
    made = plan(open_log(whole, COMPACTED), whole)
    assert made is not None
    key_filter = PlainKeyFilter(MEMORY.size, MEMORY.load_factor)
    result = compact(made, key_filter, Surroundings(file_system=whole))
    again = plan(open_log(shared, COMPACTED), shared)
    assert again is not None
    around = Surroundings(file_system=shared)
    seen = [transactions_in(again, number, around) for number in range(len(again.sources))]
    before = transactions_before(again, seen)
    groups = []
    for group in reversed(again.groups(again.end_offset)):
        survivors = np.array([0, 3, 6], np.int64)
        first = group[0].base_offset
        one, _ = copy_group(again, group, survivors, before[first], around)
        groups.append(one)
    assert groups[::-1] == list(result.groups)
    assert cleaned_files(shared) == cleaned_files(whole)
