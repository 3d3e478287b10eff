"""Any use of an index agrees with a list, and any bytes in its file end in our error or none."""

from bisect import bisect_right
from contextlib import suppress

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from ottla.base.errors import CorruptionError
from ottla.storage.index.offset_index import OffsetIndex
from ottla.storage.index.time_index import TimeIndex
from ottla.testing import FakeFileSystem

BASE = 1000
PATH = "1000.index"
OFFSET_ROOM = 40
TIME_ROOM = 30
STEPS = st.integers(1, 5)


class IndexesAgainstLists(RuleBasedStateMachine):
    """Both indexes of one segment, driven as a segment drives them."""

    def __init__(self) -> None:
        super().__init__()
        self.disk = FakeFileSystem()
        self.offsets: list[tuple[int, int]] = []
        self.times: list[tuple[int, int]] = []
        self.open()

    def open(self) -> None:
        self.offset_index = OffsetIndex(
            self.disk, PATH, base_offset=BASE, max_index_size=OFFSET_ROOM * 8 + 5
        )
        self.time_index = TimeIndex(
            self.disk, PATH + ".time", base_offset=BASE, max_index_size=TIME_ROOM * 12 + 7
        )

    @precondition(lambda self: not self.offset_index.is_full and not self.time_index.is_full)
    @rule(step=STEPS, later_ms=st.integers(0, 3))
    def append(self, step: int, later_ms: int) -> None:
        last = self.offsets[-1] if self.offsets else (BASE, 0)
        entry = (last[0] + step, last[1] + 100 * step)
        self.offset_index.append(*entry)
        self.offsets.append(entry)
        last_ms = self.times[-1][0] if self.times else -1
        self.time_index.append(last_ms + later_ms, entry[0])
        if later_ms:
            self.times.append((last_ms + later_ms, entry[0]))

    @rule(offset=st.integers(BASE - 2, BASE + 100))
    def truncate(self, offset: int) -> None:
        self.offset_index.truncate_to(offset)
        self.time_index.truncate_to(offset)
        self.offsets = [entry for entry in self.offsets if entry[0] < offset]
        self.times = [entry for entry in self.times if entry[1] < offset]

    @rule()
    def kill(self) -> None:
        self.offset_index.abandon()
        self.time_index.abandon()
        self.open()

    @rule()
    def stop_and_start(self) -> None:
        self.offset_index.close()
        self.time_index.close()
        self.open()
        assert self.offset_index.size == 8 * len(self.offsets)
        self.offset_index.resize(OFFSET_ROOM * 8)
        self.time_index.resize(TIME_ROOM * 12)

    @rule(key=st.integers(-2, 130))
    def lookup(self, key: int) -> None:
        before = [entry for entry in self.offsets if entry[0] <= BASE + key]
        assert self.offset_index.lookup(BASE + key) == (before[-1] if before else (BASE, 0))
        earlier = [entry for entry in self.times if entry[0] <= key]
        assert self.time_index.lookup(key) == (earlier[-1] if earlier else (-1, BASE))

    @invariant()
    def holds_the_same(self) -> None:
        for index, model in ((self.offset_index, self.offsets), (self.time_index, self.times)):
            assert [index.entry(number) for number in range(index.entry_count)] == model
            index.sanity_check()


IndexesAgainstLists.TestCase.settings = settings(max_examples=60, stateful_step_count=30)
TestIndexesAgainstLists = pytest.mark.slow(IndexesAgainstLists.TestCase)


@pytest.mark.slow
@given(st.sets(st.integers(1, 2**31 - 1), max_size=50), st.integers(-5, 2**32), st.integers(1, 9))
def test_the_warm_section_changes_no_answer(offsets: set[int], target: int, warm: int) -> None:
    index = OffsetIndex(FakeFileSystem(), PATH, base_offset=0, max_index_size=50 * 8)
    index._warm_count = warm
    ascending = sorted(offsets)
    for position, offset in enumerate(ascending):
        index.append(offset, position)
    for sought in [target, *ascending, *(offset - 1 for offset in ascending)]:
        place = bisect_right(ascending, sought)
        expected = (ascending[place - 1], place - 1) if place else (0, 0)
        assert index.lookup(sought) == expected


@given(st.binary(max_size=100), st.booleans(), st.integers(0, 2**63 - 1))
def test_garbage_in_an_index_is_corruption_or_goes_unseen(
    content: bytes, writable: bool, key: int
) -> None:
    disk = FakeFileSystem()
    disk.open(PATH, create=True).pwrite(content, 0)
    for kind in (OffsetIndex, TimeIndex):
        index = kind(disk, PATH, base_offset=BASE, writable=writable)
        index.lookup(key)
        assert index.entry_count <= len(content) // kind.ENTRY.size
        with suppress(CorruptionError):
            index.sanity_check()
