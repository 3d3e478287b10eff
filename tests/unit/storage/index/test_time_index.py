"""From timestamps to offsets."""

import pytest

from ottla.base.errors import CorruptionError
from ottla.storage.index.time_index import TimeIndex
from ottla.testing import FakeFileSystem

PATH = "00000000000000000100.timeindex"
BASE = 100
START_MS = 1_700_000_000_000


@pytest.fixture
def index() -> TimeIndex:
    return TimeIndex(FakeFileSystem(), PATH, base_offset=BASE, max_index_size=10 * 12)


def fill(index: TimeIndex, count: int) -> list[tuple[int, int]]:
    entries = [(START_MS + 1000 * number, BASE + 10 * number) for number in range(1, count + 1)]
    for timestamp_ms, offset in entries:
        index.append(timestamp_ms, offset)
    return entries


def entries_of(index: TimeIndex) -> list[tuple[int, int]]:
    return [index.entry(number) for number in range(index.entry_count)]


def test_an_empty_index_sends_to_the_segments_start(index: TimeIndex) -> None:
    assert index.lookup(START_MS) == (-1, BASE)
    assert index.last_entry == (-1, BASE)


def test_a_lookup_finds_the_last_entry_at_or_before_the_timestamp(index: TimeIndex) -> None:
    fill(index, 3)
    assert index.lookup(START_MS + 999) == (-1, BASE)
    assert index.lookup(START_MS + 1000) == (START_MS + 1000, 110)
    assert index.lookup(START_MS + 2999) == (START_MS + 2000, 120)
    assert index.lookup(2**62) == (START_MS + 3000, 130)
    assert index.last_entry == (START_MS + 3000, 130)


def test_the_last_slot_is_kept_for_the_roll(index: TimeIndex) -> None:
    fill(index, 9)
    assert index.is_full
    with pytest.raises(AssertionError, match="full"):
        index.append(START_MS + 99000, 999)
    index.append(START_MS + 99000, 999, skip_full_check=True)
    assert index.entry_count == 10
    with pytest.raises(AssertionError, match="no room"):
        index.append(START_MS + 99001, 999, skip_full_check=True)
    index.append(START_MS + 99000, 999, skip_full_check=True)


def test_a_timestamp_that_is_there_already_is_skipped(index: TimeIndex) -> None:
    entries = fill(index, 2)
    index.append(START_MS + 2000, 120)
    index.append(START_MS + 2000, 125)
    assert entries_of(index) == entries


def test_no_timestamp_is_skipped(index: TimeIndex) -> None:
    index.append(-1, BASE + 5)
    assert index.entry_count == 0


def test_descending_entries_are_refused(index: TimeIndex) -> None:
    fill(index, 2)
    with pytest.raises(AssertionError, match="offsets"):
        index.append(START_MS + 9000, 119)
    with pytest.raises(AssertionError, match="timestamps"):
        index.append(START_MS + 1999, 130)


def test_an_offset_too_far_from_the_base_is_refused(index: TimeIndex) -> None:
    with pytest.raises(AssertionError, match="far"):
        index.append(START_MS, BASE + 2**31)


def test_truncating_removes_the_entries_at_and_after_the_offset(index: TimeIndex) -> None:
    entries = fill(index, 5)
    for offset, left in [(151, 5), (150, 4), (141, 4), (111, 1), (110, 0), (0, 0)]:
        index.truncate_to(offset)
        assert entries_of(index) == entries[:left]
    assert index.last_entry == (-1, BASE)


def test_timestamp_zero_at_the_base_survives_a_clean_close() -> None:
    disk = FakeFileSystem()
    index = TimeIndex(disk, PATH, base_offset=BASE)
    index.append(0, BASE)
    index.close()
    again = TimeIndex(disk, PATH, base_offset=BASE)
    assert again.last_entry == (0, BASE)


def test_timestamp_zero_at_the_base_counts_before_later_entries() -> None:
    disk = FakeFileSystem()
    index = TimeIndex(disk, PATH, base_offset=BASE)
    index.append(0, BASE)
    index.append(1, BASE + 1)
    index.abandon()
    assert entries_of(TimeIndex(disk, PATH, base_offset=BASE)) == [(0, BASE), (1, BASE + 1)]


def test_a_new_index_with_one_slot_is_empty() -> None:
    index = TimeIndex(FakeFileSystem(), PATH, base_offset=BASE, max_index_size=12)
    assert index.entry_count == 0
    assert index.is_full
    index.append(START_MS, BASE, skip_full_check=True)
    assert index.entry_count == 1


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("000000000000000500000001", "000000000000000400000002"),
        ("000000000000000500000002", "000000000000000600000001"),
        ("0000000000000005fffffff0", "0000000000000006fffffff1"),
    ],
)
def test_impossible_entries_fail_the_sanity_check(first: str, second: str) -> None:
    disk = FakeFileSystem()
    disk.open(PATH, create=True).pwrite(bytes.fromhex(first + second), 0)
    with pytest.raises(CorruptionError) as error:
        TimeIndex(disk, PATH, base_offset=BASE).sanity_check()
    assert (error.value.path, error.value.position) == (PATH, 12)
