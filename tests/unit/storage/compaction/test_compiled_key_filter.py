"""The key filter of compiled loops: it retains what the others do, and refuses wrong records."""

import pytest

from ottla.record.batch import InvalidBatchError, batch_at
from ottla.storage.compaction import compiled_key_filter
from ottla.storage.compaction.compiled_key_filter import CompiledKeyFilter
from ottla.storage.compaction.key_filter import Candidate
from tests.support.key_filter_cases import (
    CASES,
    LOAD_FACTOR,
    MEMORY,
    Case,
    batch_of,
    check_case,
    offsets_of,
)

pytestmark = pytest.mark.skipif(
    not compiled_key_filter.IS_COMPILED, reason="is made use of only where it is compiled"
)


@pytest.mark.parametrize("case", CASES, ids=lambda one: one.name)
def test_each_record_that_a_reader_needs_is_retained_and_no_other(case: Case) -> None:
    check_case(CompiledKeyFilter, case)


def test_a_map_that_is_full_knows_all_its_keys() -> None:
    batch = batch_of(0, *((b"key %d" % number, b"1") for number in range(90)))
    key_filter = CompiledKeyFilter(MEMORY, LOAD_FACTOR)
    key_filter.learn([batch], 0)
    assert key_filter.size == key_filter.capacity == 90
    assert key_filter.retain([Candidate(batch, True)], 1000)[0].is_whole


def test_what_one_batch_leaves_in_the_columns_is_not_taken_for_the_next_ones() -> None:
    large = batch_of(0, *((b"key %d" % number, b"1") for number in range(50)))
    small = batch_of(50, (b"key 3", None))
    key_filter = CompiledKeyFilter(MEMORY, LOAD_FACTOR)
    key_filter.learn([large, small, small], 0)
    found = key_filter.retain([Candidate(large, True), Candidate(small, True)], 1000)
    assert offsets_of(large, found[0]) == tuple(one for one in range(50) if one != 3)
    assert offsets_of(small, found[1]) == (50,)


@pytest.mark.parametrize(
    ("position", "value", "reason"),
    [
        (57, b"\0\0\0\x01", "its size and its content disagree"),
        (57, b"\x7f\xff\xff\xff", "more records than fit"),
    ],
)
def test_a_batch_that_has_not_what_its_header_says_is_refused(
    position: int, value: bytes, reason: str
) -> None:
    content = bytearray(batch_of(0, (b"a", b"1"), (b"b", b"2")).bytes_view())
    content[position : position + len(value)] = value
    key_filter = CompiledKeyFilter(MEMORY, LOAD_FACTOR)
    with pytest.raises(InvalidBatchError, match=reason):
        key_filter.learn([batch_at(bytes(content))], 0)
