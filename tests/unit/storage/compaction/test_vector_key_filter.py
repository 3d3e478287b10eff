"""The key filter with numpy: what it retains, and the digests by which shares join keys."""

import numpy as np
import pytest

from ottla.storage.compaction.key_filter import Candidate
from ottla.storage.compaction.vector_key_filter import OffsetFilter, VectorKeyFilter, key_digests
from tests.support.key_filter_cases import (
    CASES,
    LOAD_FACTOR,
    Case,
    batch_of,
    check_case,
    in_one_buffer,
    offsets_of,
    old_message,
)


@pytest.mark.parametrize("case", CASES, ids=lambda one: one.name)
def test_each_record_that_a_reader_needs_is_retained_and_no_other(case: Case) -> None:
    check_case(VectorKeyFilter, case)


def test_a_map_that_is_full_knows_all_its_keys() -> None:
    keys = [b"key %d" % number for number in range(90)]
    first, second = in_one_buffer(
        batch_of(0, *((key, b"1") for key in keys)),
        batch_of(90, *((key, b"2") for key in keys[:45])),
    )
    key_filter = VectorKeyFilter(24 * 100, LOAD_FACTOR)
    key_filter.learn([first, second], 0)
    assert key_filter.size == key_filter.capacity == 90
    found = key_filter.retain([Candidate(first, True), Candidate(second, True)], 1000)
    assert offsets_of(first, found[0]) == tuple(range(45, 90))
    assert found[1].is_whole


def test_a_filter_that_was_given_its_offsets_retains_them_but_no_tombstone_that_goes() -> None:
    batch = batch_of(10, (b"a", b"1"), (b"b", None), (None, b"x"), (b"c", b"1"), (b"d", b"1"))
    given = OffsetFilter(np.array([11, 13], np.int64))
    stays, goes = (given.retain([Candidate(batch, keeps)], 14)[0] for keeps in (True, False))
    # 14 lies beyond the end: nobody has looked at it.
    assert offsets_of(batch, stays) == (11, 13, 14)
    assert offsets_of(batch, goes) == (13, 14)
    assert (stays.keyless_count, stays.has_tombstone, goes.has_tombstone) == (1, True, False)


def test_a_filter_that_was_given_no_offset_retains_nothing_before_the_end() -> None:
    batch = batch_of(0, (b"a", b"1"), (b"b", b"1"))
    (found,) = OffsetFilter(np.array([], np.int64)).retain([Candidate(batch, True)], 10)
    assert (found.count, found.is_whole) == (0, False)


def test_a_keys_digest_depends_on_all_its_bytes_and_on_nothing_else() -> None:
    keys = [b"", b"\0", b"\0\0", b"abcdefgh", b"abcdefgH", b"Abcdefgh", b"abcdefghi", b"x" * 33]
    apart = [batch_of(number, (key, b"v")) for number, key in enumerate(keys)]
    together = batch_of(100, (None, b"none"), *((key, b"w") for key in keys))
    old = [old_message(200 + number, key, b"v") for number, key in enumerate(keys)]
    digests: dict[int, tuple[int, int]] = {}
    for first, second, offsets in key_digests(in_one_buffer(*apart, together, *old)):
        rows = zip(offsets.tolist(), first.tolist(), second.tolist(), strict=True)
        digests.update({offset: (one, other) for offset, one, other in rows})
    assert sorted(digests) == [*range(8), *range(101, 109), *range(200, 208)]
    assert len({digests[number] for number in range(8)}) == len(keys)
    for number in range(8):
        assert digests[number] == digests[101 + number] == digests[200 + number]
