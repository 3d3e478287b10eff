"""Ranges of positions that grow together."""

import hypothesis.strategies as st
import pytest
from hypothesis import given

from ottla.storage.segment.checked_ranges import CheckedRanges


def end_by_set(covered: set[int], position: int) -> int | None:
    """As the ranges say it, by looking at each byte: a range reaches a position as its end too."""
    if position - 1 not in covered:
        return None
    while position in covered:
        position += 1
    return position


@pytest.mark.slow
@given(st.lists(st.tuples(st.integers(0, 40), st.integers(1, 10)), max_size=12))
def test_ranges_say_what_a_set_of_bytes_says(added: list[tuple[int, int]]) -> None:
    ranges, covered = CheckedRanges(), set[int]()
    for start, size in added:
        ranges.add(start, start + size)
        covered |= set(range(start, start + size))
        for position in range(1, 52):
            assert ranges.end_after(position) == end_by_set(covered, position)


def test_nothing_begins_before_the_first_byte() -> None:
    ranges = CheckedRanges()
    ranges.add(0, 10)
    assert ranges.end_after(0) is None
    assert ranges.end_after(11) is None
