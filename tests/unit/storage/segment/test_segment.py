"""One segment: what it appends is found, cut, and let go of."""

from collections.abc import Iterator

import pytest

from ottla.base.errors import CorruptionError
from ottla.record.batch import iter_batches
from ottla.storage.files.filenames import FileSuffix
from ottla.storage.segment.segment import Segment
from ottla.storage.segment.segment_view import TimestampOffset, Trust
from ottla.testing import FakeFileSystem
from tests.support.segments import (
    BASE,
    COUNT,
    TIMES_MS,
    content_of,
    filled,
    new_disk,
)


@pytest.fixture
def disk() -> FakeFileSystem:
    return new_disk()


@pytest.fixture
def segment(disk: FakeFileSystem) -> Iterator[Segment]:
    segment = filled(disk)
    yield segment
    segment.close_files()


def offsets(segment: Segment) -> list[int]:
    found = iter_batches(segment.log.read(0, segment.size))
    return [one.base_offset for one in found]


def assert_all_is_found(segment: Segment, count: int = COUNT) -> None:
    size = len(content_of(0))
    for number in range(count):
        found = segment.translate(BASE + number)
        assert found is not None
        assert found.position == number * size
    assert segment.translate(BASE + count) is None


def test_what_is_appended_is_found_and_indexed_in_intervals(segment: Segment) -> None:
    assert_all_is_found(segment)
    index = segment.offset_index
    assert 0 < index.entry_count < COUNT
    assert segment.largest == TimestampOffset(TIMES_MS[4], BASE + 4)


def test_a_read_ends_by_size_and_gives_one_batch_anyway(segment: Segment) -> None:
    size = len(content_of(0))
    some = segment.read(BASE + 1, 2 * size, segment.size, min_one_message=False)
    assert some is not None
    assert (some.position, some.size) == (size, 2 * size)
    for is_one_wanted, wanted in ((True, size), (False, 1)):
        found = segment.read(BASE, 1, segment.size, min_one_message=is_one_wanted)
        assert found is not None
        assert found.size == wanted
    assert segment.read(BASE + COUNT, 1, segment.size, min_one_message=True) is None


def test_a_cut_takes_index_entries_and_the_largest_timestamp_along(segment: Segment) -> None:
    size = len(content_of(0))
    assert segment.truncate_to(BASE + 3) == (COUNT - 3) * size
    assert offsets(segment) == [BASE, BASE + 1, BASE + 2]
    assert_all_is_found(segment, 3)
    assert segment.largest == TimestampOffset(TIMES_MS[2], BASE + 2)
    assert segment.truncate_to(BASE + 3) == 0


def test_indexes_of_a_damaged_log_are_left_as_they_are(
    disk: FakeFileSystem, segment: Segment
) -> None:
    count = segment.offset_index.entry_count
    file = disk.open(segment.log.path, writable=True)
    file.pwrite((BASE).to_bytes(8), 3 * len(content_of(0)))
    file.close()
    with pytest.raises(CorruptionError, match="out of place"):
        segment.rebuild_indexes()
    assert segment.offset_index.entry_count == count


def test_indexes_are_let_go_unless_they_were_used_and_opened_again(segment: Segment) -> None:
    assert not segment.let_go(), "it was appended to"
    assert segment.let_go()
    assert segment.open_indexes == []
    assert segment.trust is Trust.FOUND
    assert_all_is_found(segment)
    assert segment.open_indexes


def test_deleting_removes_every_file(disk: FakeFileSystem, segment: Segment) -> None:
    segment.sync()
    assert f"{BASE:020}{FileSuffix.LIVE.value}.log" in disk.list("data")
    segment.delete()
    assert disk.list("data") == []
