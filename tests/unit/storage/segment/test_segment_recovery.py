"""One segment after a crash: what is sound of it, and what its indexes say then."""

from collections.abc import Iterator

import pytest

from ottla.storage.findings import FindingKind
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
    assert recover(found, lambda one: seen.append(one.base_offset)) == (found.size, None)
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
    sound, damage = recover(found, lambda one: None)
    assert sound == 3 * size
    assert damage is not None
    assert (damage.kind, damage.position) == (FindingKind.LOG_DAMAGE, sound)
    assert found.largest == TimestampOffset(TIMES_MS[2], BASE + 2)
    found.close_files()


def test_a_batch_that_is_gone_is_named_where_there_are_no_gaps(
    disk: FakeFileSystem, segment: Segment, caplog: pytest.LogCaptureFixture
) -> None:
    size = len(content_of(0))
    segment.sync()
    file = disk.open(segment.log.path, writable=True)
    rest = file.pread(file.size() - 2 * size, 2 * size)
    file.pwrite(rest, size)
    file.truncate(size + len(rest))
    file.close()
    found = opened(disk)
    recover(found, lambda one: None)
    assert caplog.text == ""
    found.close_files()
    found = opened(disk)
    assert recover(found, lambda one: None, gapless_from=BASE) == (found.size, None)
    assert f"at byte {size}: offsets {BASE + 1} to {BASE + 1} are missing" in caplog.text
    found.close_files()


def test_the_last_entries_of_an_ended_segment_end_as_its_log_does(
    disk: FakeFileSystem, segment: Segment
) -> None:
    segment.become_inactive()
    assert has_true_last_entries(segment)
    segment.time_index.truncate_to(BASE + 2)
    assert not has_true_last_entries(segment)
