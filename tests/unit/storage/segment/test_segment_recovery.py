"""One segment after a crash: what is sound of it, and what its indexes say then."""

from collections.abc import Iterator

import pytest

from ottla.storage.segment.segment import Segment
from ottla.storage.segment.segment_recovery import has_true_last_entries, recover
from ottla.storage.segment.segment_view import TimestampOffset
from ottla.testing import FakeFileSystem
from tests.support.segments import (
    BASE,
    COUNT,
    TIMES_MS,
    content_of,
    filled,
    new_disk,
    opened,
)


@pytest.fixture
def disk() -> FakeFileSystem:
    return new_disk()


@pytest.fixture
def segment(disk: FakeFileSystem) -> Iterator[Segment]:
    segment = filled(disk)
    yield segment
    segment.close_files()


def test_recovery_rebuilds_what_the_indexes_said(disk: FakeFileSystem, segment: Segment) -> None:
    segment.become_inactive()
    entries = [segment.offset_index.entry(one) for one in range(segment.offset_index.entry_count)]
    segment.sync()
    for kind in ("index", "timeindex"):
        file = disk.open(f"data/{BASE:020}.{kind}", writable=True)
        file.pwrite(b"\xff" * 8, 0)
        file.close()
    found = opened(disk)
    seen: list[int] = []
    assert recover(found, lambda one: seen.append(one.base_offset)) == found.size
    assert seen == [BASE + number for number in range(COUNT)]
    again = [found.offset_index.entry(one) for one in range(found.offset_index.entry_count)]
    assert again == entries
    assert found.largest == TimestampOffset(TIMES_MS[4], BASE + 4)
    found.close_files()


def test_recovery_says_how_much_is_sound(disk: FakeFileSystem, segment: Segment) -> None:
    size = len(content_of(0))
    segment.sync()
    file = disk.open(segment.log.path, writable=True)
    file.pwrite(b"\xff", 3 * size + 80)
    file.close()
    found = opened(disk)
    assert recover(found, lambda one: None) == 3 * size
    assert found.largest == TimestampOffset(TIMES_MS[2], BASE + 2)
    found.close_files()


def test_the_last_entries_of_an_ended_segment_end_as_its_log_does(
    disk: FakeFileSystem, segment: Segment
) -> None:
    segment.become_inactive()
    assert has_true_last_entries(segment)
    segment.time_index.truncate_to(BASE + 2)
    assert not has_true_last_entries(segment)
