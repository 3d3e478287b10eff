"""An index entry for an offset that lies in a gap of the log is named, and nothing else is done."""

import pytest

from ottla.storage.log.gap_entries import GapEntries
from ottla.storage.segment.segment import Segment
from ottla.storage.segment.segment_view import Trust
from ottla.testing import FakeFileSystem
from tests.support.logs import NOW_MS, SMALL

PATH = "d/00000000000000000000"


@pytest.fixture
def segment() -> Segment:
    """One that was found on the disk, with entries for 10, 20, 30, and for the time of 25."""
    disk = FakeFileSystem()
    disk.make_directory("d")
    segment = Segment(disk, "d", 0, config=SMALL, created_ms=NOW_MS, create=True)
    for offset in (10, 20, 30):
        segment.offset_index.append(offset, offset * 100)
    segment.time_index.append(NOW_MS, 25)
    segment.trust = Trust.FOUND
    return segment


def named(
    segment: Segment, caplog: pytest.LogCaptureFixture, *gaps: tuple[int, int]
) -> list[tuple[str, int]]:
    """By which index, and for which offset, entries are named in gaps of a walk."""
    walk = GapEntries(segment)
    for first, following in gaps:
        walk.check_gap(first, following, position=7)
    messages = [one.split(" has an entry for ") for one in caplog.messages]
    return [(one[0].rsplit(".", 1)[1], int(one[1].split(";")[0])) for one in messages]


def test_an_entry_within_a_gap_is_named_with_its_index_and_the_place_in_the_log(
    segment: Segment, caplog: pytest.LogCaptureFixture
) -> None:
    assert named(segment, caplog, (15, 22)) == [("index", 20)]
    assert f"{PATH}.log at byte 7: offsets 15 to 21 are missing, but {PATH}.index" in caplog.text


def test_both_indexes_are_asked(segment: Segment, caplog: pytest.LogCaptureFixture) -> None:
    assert named(segment, caplog, (19, 26)) == [("index", 20), ("timeindex", 25)]


def test_entries_beside_a_gap_are_right(segment: Segment, caplog: pytest.LogCaptureFixture) -> None:
    assert named(segment, caplog, (11, 20), (21, 25), (26, 30), (31, 99)) == []


def test_one_walk_asks_of_many_gaps(segment: Segment, caplog: pytest.LogCaptureFixture) -> None:
    gaps = ((0, 5), (9, 11), (12, 15), (25, 26), (28, 1000))
    assert named(segment, caplog, *gaps) == [("index", 10), ("timeindex", 25), ("index", 30)]


def test_indexes_that_were_made_from_the_log_say_what_it_says(
    segment: Segment, caplog: pytest.LogCaptureFixture
) -> None:
    segment.trust = Trust.OURS
    assert named(segment, caplog, (0, 100)) == []
