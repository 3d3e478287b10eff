"""The segments of a log, by offset; a search holds what it has taken."""

import pytest

from ottla.config.topic import TopicConfig
from ottla.storage.index.transaction_index import AbortedTransaction
from ottla.storage.segment.segment import Segment
from ottla.storage.segment.segments import Segments
from ottla.testing import FakeFileSystem


def segment(base_offset: int) -> Segment:
    disk = FakeFileSystem()
    disk.make_directory("d")
    return Segment(disk, "d", base_offset, config=TopicConfig(), created_ms=0, create=True)


def bases(segments: tuple[Segment, ...]) -> list[int]:
    return [one.base_offset for one in segments]


@pytest.fixture
def segments() -> Segments:
    return Segments(map(segment, (20, 0, 10)))


def test_they_stand_in_the_order_of_their_offsets(segments: Segments) -> None:
    assert bases(segments.values) == [0, 10, 20]
    assert (segments.first.base_offset, segments.active.base_offset) == (0, 20)
    assert len(segments) == 3


@pytest.mark.parametrize(("offset", "base"), [(0, 0), (9, 0), (10, 10), (19, 10), (99, 20)])
def test_the_segment_that_covers_an_offset_is_found(
    segments: Segments, offset: int, base: int
) -> None:
    found = segments.floor(offset)
    assert found is not None
    assert found.base_offset == base
    assert bases(segments.from_offset(offset))[0] == base


def test_before_the_first_there_is_none() -> None:
    later = Segments([segment(5), segment(8)])
    assert later.floor(4) is None
    assert bases(later.from_offset(4)) == [5, 8]
    assert later.wholly_below(4) == ()


def test_the_active_one_is_never_wholly_below(segments: Segments) -> None:
    assert bases(segments.wholly_below(10)) == [0]
    assert bases(segments.wholly_below(19)) == [0]
    assert bases(segments.wholly_below(10**9)) == [0, 10]


def test_a_change_leaves_what_a_reader_has_taken(segments: Segments) -> None:
    taken = segments.values
    segments.add(segment(30))
    segments.add(segment(15))
    segments.remove([segment(10)])
    assert bases(taken) == [0, 10, 20]
    assert bases(segments.values) == [0, 15, 20, 30]
    segments.remove_oldest(2)
    assert bases(segments.values) == [20, 30]
    assert segments.floor_index(25) == 0


def test_two_segments_of_one_base_offset_are_refused(segments: Segments) -> None:
    with pytest.raises(AssertionError, match="two segments"):
        segments.add(segment(10))


def aborted(offset: int) -> AbortedTransaction:
    return AbortedTransaction(
        producer_id=1, first_offset=offset, last_offset=offset, last_stable_offset=offset
    )


def with_aborts(segments: Segments, offset: int) -> list[int]:
    """As a reader asks, which looks into each of these indexes."""
    found = []
    for one in segments.maybe_aborted_from(offset):
        if one.transaction_index.entries:
            found.append(one.base_offset)
    return found


def test_once_looked_into_a_segment_without_aborts_is_passed_over_until_it_has_some(
    segments: Segments,
) -> None:
    assert [one.base_offset for one in segments.maybe_aborted_from(0)] == [0, 10, 20]
    assert with_aborts(segments, 0) == []
    assert list(segments.maybe_aborted_from(0)) == []
    segments.values[0].transaction_index.close()
    assert list(segments.maybe_aborted_from(0)) == []
    segments.values[1].transaction_index.append(aborted(12))
    assert with_aborts(segments, 0) == with_aborts(segments, 15) == [10]
    assert with_aborts(segments, 20) == []
    segments.values[2].transaction_index.complete([aborted(25)])
    segments.add(segment(30))
    assert with_aborts(segments, 0) == [10, 20]
    assert [one.base_offset for one in segments.maybe_aborted_from(0)] == [10, 20]


def test_an_index_that_is_emptied_and_filled_again_is_looked_into(segments: Segments) -> None:
    index = segments.values[1].transaction_index
    index.append(aborted(12))
    index.truncate_to(0)
    assert with_aborts(segments, 0) == []
    index.append(aborted(13))
    index.close()
    assert with_aborts(segments, 0) == [10]


def test_of_a_segment_that_is_gone_no_aborts_are_told(segments: Segments) -> None:
    gone = segments.values[:2]
    gone[1].transaction_index.append(aborted(12))
    segments.remove_oldest(2)
    gone[0].transaction_index.append(aborted(2))
    assert with_aborts(segments, 0) == []
    segments.add(segment(10))
    assert [one.base_offset for one in segments.maybe_aborted_from(0)] == [10]


def test_the_segment_after_another_is_found_also_if_that_one_is_gone(segments: Segments) -> None:
    first, middle, last = segments.values
    segments.remove([middle])
    assert segments.after(first) is segments.after(middle) is last
    assert segments.after(last) is None
