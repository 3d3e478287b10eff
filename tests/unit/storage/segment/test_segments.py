"""The segments of a log, by offset; a search holds what it has taken."""

import pytest

from ottla.config.topic import TopicConfig
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
