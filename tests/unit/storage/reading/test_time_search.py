"""Offsets by time in a log that is only read."""

import pytest

from ottla.storage.index.time_index import ENTRY
from ottla.storage.reading.read_only_directory import open_for_reading
from ottla.storage.reading.time_search import first_offset_at
from ottla.testing import FakeFileSystem
from tests.support.logs import DIRECTORY, NOW_MS, SMALL, TOPIC_ID, append, open_directory


@pytest.fixture
def disk() -> FakeFileSystem:
    """Twelve records, ten ms apart, in segments of a few; stopped cleanly."""
    disk = FakeFileSystem()
    directory = open_directory(disk, SMALL)
    log = directory.create_log("t", 0, TOPIC_ID)
    for number in range(12):
        append(log, b"v" * 90, timestamp_ms=NOW_MS + 10 * number)
    assert len(log.segments) > 2
    directory.close()
    return disk


def found(disk: FakeFileSystem, timestamp_ms: int) -> int | None:
    return first_offset_at(open_for_reading(DIRECTORY, disk).partition("t", 0), timestamp_ms)


@pytest.mark.parametrize(
    ("after_ms", "offset"), [(-1, 0), (0, 0), (1, 1), (10, 1), (55, 6), (110, 11), (111, None)]
)
def test_the_first_record_at_or_after_a_time_is_found(
    disk: FakeFileSystem, after_ms: int, offset: int | None
) -> None:
    assert found(disk, NOW_MS + after_ms) == offset


def test_a_record_before_the_logs_start_is_not_found(disk: FakeFileSystem) -> None:
    directory = open_directory(disk, SMALL)
    directory.logs["t", 0].maintenance.delete_records_before(7)
    directory.close()
    assert found(disk, NOW_MS) == 7


@pytest.mark.parametrize("entry", [(NOW_MS - 5, 0), (NOW_MS - 5, 2), (NOW_MS + 1, 99)])
def test_a_time_index_that_contradicts_its_log_hides_no_record(
    disk: FakeFileSystem, entry: tuple[int, int]
) -> None:
    file = disk.open(f"{DIRECTORY}/t-0/{0:020}.timeindex", writable=True)
    file.truncate(0)
    file.pwrite(ENTRY.pack(*entry), 0)
    file.close()
    assert found(disk, NOW_MS) == 0
    assert found(disk, NOW_MS + 20) == 2
