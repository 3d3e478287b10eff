"""How reads are shared out: nothing twice, nothing left out, and about the same for everybody."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.base.partitions import OffsetRange
from ottla.sources.splits import OffsetSpan, SplitRule, split_ranges

rules = st.builds(
    SplitRule,
    min_count=st.integers(1, 20),
    min_size=st.integers(0, 100),
    max_size=st.integers(1, 1000),
)


@st.composite
def spans(draw: st.DrawFn) -> list[OffsetSpan]:
    offset = draw(st.integers(0, 1000))
    found = []
    for span, size in draw(
        st.lists(st.tuples(st.integers(1, 500), st.integers(1, 500)), max_size=6)
    ):
        found.append(OffsetSpan(from_offset=offset, until_offset=offset + span, size=size))
        offset += span
    return found


def rule(*, min_count: int = 1, min_size: int = 0, max_size: int = 10**9) -> SplitRule:
    return SplitRule(min_count=min_count, min_size=min_size, max_size=max_size)


def parts(given: list[OffsetSpan], one_rule: SplitRule) -> list[tuple[int, int]]:
    found = split_ranges({0: given}, one_rule)
    return [(part.from_offset, part.until_offset) for _, part in found]


@pytest.mark.slow
@given(st.lists(spans(), max_size=3), rules)
def test_every_offset_is_in_one_task(given_spans: list[list[OffsetSpan]], one: SplitRule) -> None:
    partitions = dict(enumerate(given_spans))
    found = split_ranges(partitions, one)
    for number, some in partitions.items():
        own = [part for partition, part in found if partition == number]
        assert all(part.from_offset < part.until_offset for part in own)
        assert [part.from_offset for part in own[1:]] == [part.until_offset for part in own[:-1]]
        if some:
            assert own[0].from_offset == some[0].from_offset
            assert own[-1].until_offset == some[-1].until_offset
        else:
            assert own == []


def test_a_large_partition_is_cut_by_bytes_not_by_offsets() -> None:
    heavy = OffsetSpan(from_offset=0, until_offset=100, size=900)
    light = OffsetSpan(from_offset=100, until_offset=1000, size=100)
    assert parts([heavy, light], rule(min_count=2)) == [(0, 55), (55, 1000)]


def test_small_data_stays_in_one_task() -> None:
    small = OffsetSpan(from_offset=0, until_offset=1000, size=999)
    assert parts([small], rule(min_count=8, min_size=1000)) == [(0, 1000)]


def test_no_task_is_much_larger_than_allowed() -> None:
    large = OffsetSpan(from_offset=0, until_offset=1000, size=1000)
    assert parts([large], rule(max_size=250)) == [(0, 250), (250, 500), (500, 750), (750, 1000)]


def test_a_part_of_a_stretch_has_its_share_of_the_size() -> None:
    whole = OffsetSpan(from_offset=100, until_offset=200, size=1000)
    wanted = OffsetRange(from_offset=150, until_offset=170)
    assert whole.within(wanted) == OffsetSpan(from_offset=150, until_offset=170, size=200)
    assert whole.within(OffsetRange(from_offset=200, until_offset=300)) is None
