"""Finding appends for which the offset index has no entry yet."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.storage.index.tail_positions import MAX_PLACES, TailPositions

SIZE = 100


def appended(*last_offsets: int) -> TailPositions:
    """Appends of 100 bytes, the first at byte 0."""
    appends = TailPositions()
    for number, last_offset in enumerate(last_offsets):
        appends.add(number * SIZE, last_offset, SIZE)
    return appends


def test_each_offset_leads_to_its_append() -> None:
    appends = appended(4, 9, 14)
    assert [appends.position_of(offset) for offset in (5, 9, 10, 14)] == [100, 100, 200, 200]


def test_offset_after_all_leads_to_the_last_append() -> None:
    assert appended(4, 9).position_of(99) == 100


def test_where_the_first_append_begins_only_the_index_knows() -> None:
    assert appended(4, 9).position_of(3) is None
    assert TailPositions().position_of(0) is None


def test_after_an_index_entry_the_first_append_is_known_too() -> None:
    appends = appended(4, 9)
    appends.indexed()
    assert appends.position_of(10) is None
    appends.add(200, 14, SIZE)
    assert appends.position_of(10) == appends.position_of(14) == 200
    assert appends.position_of(9) is None
    assert appends.size == SIZE


def test_gap_leads_to_the_append_after_it() -> None:
    assert appended(4, 9, 30).position_of(12) == 200


def test_log_that_was_cut_has_forgotten_its_appends() -> None:
    appends = appended(4, 9)
    appends.cut()
    appends.add(50, 6, SIZE)
    assert appends.position_of(5) is None
    assert appends.size == SIZE


def test_number_of_places_has_a_limit() -> None:
    appends = appended(*range(MAX_PLACES + 1))
    assert appends.size == (MAX_PLACES + 1) * SIZE
    assert appends.position_of(MAX_PLACES) == MAX_PLACES * SIZE
    assert appends.position_of(MAX_PLACES - 1) is None


@pytest.mark.slow
@given(st.lists(st.tuples(st.integers(1, 5), st.booleans()), max_size=30), st.integers(0, 160))
def test_whatever_is_found_is_the_append_of_the_offset(
    steps: list[tuple[int, bool]], offset: int
) -> None:
    appends = TailPositions()
    ends: list[int] = []
    for count, is_indexed in steps:
        if is_indexed:
            appends.indexed()
        ends.append((ends[-1] if ends else -1) + count)
        appends.add((len(ends) - 1) * SIZE, ends[-1], SIZE)
    found = appends.position_of(offset)
    at = next((number for number, end in enumerate(ends) if end >= offset), len(ends) - 1)
    assert found is None or found == at * SIZE
