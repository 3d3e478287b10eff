"""From offsets to positions."""

import pytest

from ottla.base.errors import CorruptionError
from ottla.storage.index.offset_index import OffsetIndex
from ottla.testing import FakeFileSystem

PATH = "00000000000000000100.index"
BASE = 100


@pytest.fixture
def index() -> OffsetIndex:
    return OffsetIndex(FakeFileSystem(), PATH, base_offset=BASE, max_index_size=10 * 8)


def fill(index: OffsetIndex, count: int) -> list[tuple[int, int]]:
    entries = [(BASE + 10 * number, 4096 * number) for number in range(1, count + 1)]
    for offset, position in entries:
        index.append(offset, position)
    return entries


def test_an_empty_index_sends_to_the_segments_start(index: OffsetIndex) -> None:
    assert index.lookup(BASE) == (BASE, 0)
    assert index.lookup(10**12) == (BASE, 0)
    assert index.last_offset == BASE
    assert index.entry_count == 0


def test_a_lookup_finds_the_last_entry_at_or_before_the_offset(index: OffsetIndex) -> None:
    fill(index, 3)
    assert index.lookup(109) == (BASE, 0)
    assert index.lookup(110) == (110, 4096)
    assert index.lookup(119) == (110, 4096)
    assert index.lookup(120) == (120, 8192)
    assert index.lookup(10**15) == (130, 12288)
    assert index.lookup(0) == (BASE, 0)
    assert index.last_offset == 130


def test_an_index_is_full_when_no_slot_is_left(index: OffsetIndex) -> None:
    fill(index, 9)
    assert not index.is_full
    index.append(1000, 99999)
    assert index.is_full
    with pytest.raises(AssertionError, match="full"):
        index.append(1001, 100000)


@pytest.mark.parametrize("offset", [130, 129, 100, 99, 0])
def test_offsets_that_do_not_ascend_are_refused(index: OffsetIndex, offset: int) -> None:
    fill(index, 3)
    with pytest.raises(AssertionError):
        index.append(offset, 99999)
    assert index.entry_count == 3


@pytest.mark.parametrize("offset", [BASE - 1, BASE + 2**31])
def test_offsets_too_far_from_the_base_are_refused(index: OffsetIndex, offset: int) -> None:
    with pytest.raises(AssertionError):
        index.append(offset, 1)


def test_the_farthest_offset_fits(index: OffsetIndex) -> None:
    farthest = BASE + 2**31 - 1
    index.append(farthest, 2**31 - 1)
    assert index.lookup(farthest) == (farthest, 2**31 - 1)


def test_an_entry_of_zero_bytes_is_refused(index: OffsetIndex) -> None:
    with pytest.raises(AssertionError, match="zero"):
        index.append(BASE, 0)


def test_truncating_removes_the_entries_at_and_after_the_offset(index: OffsetIndex) -> None:
    entries = fill(index, 5)
    for offset, left in [(151, 5), (150, 4), (141, 4), (140, 3), (111, 1), (110, 0), (0, 0)]:
        index.truncate_to(offset)
        assert [index.entry(number) for number in range(index.entry_count)] == entries[:left]
    index.append(105, 500)
    assert index.last_offset == 105


def test_a_descending_index_fails_the_sanity_check() -> None:
    disk = FakeFileSystem()
    content = bytes.fromhex("0000000a000010000000000900002000")
    disk.open(PATH, create=True).pwrite(content, 0)
    index = OffsetIndex(disk, PATH, base_offset=BASE)
    with pytest.raises(CorruptionError) as error:
        index.sanity_check()
    assert (error.value.path, error.value.position) == (PATH, 8)


@pytest.mark.parametrize("entry", ["ffffffff00001000", "00000005ffffffff"])
def test_negative_fields_fail_the_sanity_check(entry: str) -> None:
    disk = FakeFileSystem()
    disk.open(PATH, create=True).pwrite(bytes.fromhex(entry), 0)
    with pytest.raises(CorruptionError):
        OffsetIndex(disk, PATH, base_offset=BASE).sanity_check()
