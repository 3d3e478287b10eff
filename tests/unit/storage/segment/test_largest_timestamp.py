"""The largest timestamp of a segment whose indexes nobody has opened."""

import pytest

from ottla.config.topic import TopicConfig
from ottla.storage.index.offset_index import ENTRY as OFFSET_ENTRY
from ottla.storage.index.time_index import ENTRY as TIME_ENTRY
from ottla.storage.segment.largest_timestamp import largest_without_indexes
from ottla.storage.segment.segment import Segment
from ottla.testing import FakeFileSystem
from tests.support.logs import NOW_MS, TOPIC_ID, append, open_directory

LARGE = 9000
ROOMY = TopicConfig(segment_bytes=1 << 20, index_interval_bytes=100)


def reopened(disk: FakeFileSystem, value_sizes: list[int]) -> Segment:
    """The first segment of a log that was stopped cleanly; its second batch is the latest."""
    directory = open_directory(disk, ROOMY)
    log = directory.create_log("t", 0, TOPIC_ID)
    for number, size in enumerate(value_sizes):
        append(log, b"v" * size, timestamp_ms=NOW_MS + (100 if number == 1 else number))
    log.writer.roll(NOW_MS)
    directory.close()
    return open_directory(disk, ROOMY).logs["t", 0].segments.first


def change(disk: FakeFileSystem, name: str, content: bytes) -> None:
    file = disk.open(f"data/t-0/00000000000000000000.{name}", create=True)
    file.truncate(0)
    file.pwrite(content, 0)
    file.close()


@pytest.mark.parametrize("sizes", [[10], [10, 20, 30], [LARGE] * 2])
def test_it_is_known_without_an_index_being_opened(sizes: list[int]) -> None:
    segment = reopened(FakeFileSystem(), sizes)
    expected = NOW_MS + (100 if len(sizes) > 1 else 0)
    assert segment.largest_timestamp_ms() == expected
    assert segment.open_indexes == []


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("timeindex", TIME_ENTRY.pack(NOW_MS + 7_000_000, 1)),
        ("timeindex", TIME_ENTRY.pack(NOW_MS + 100, 4)),
        ("timeindex", b"x" * 7),
        ("timeindex", b""),
        ("timeindex", bytes(24)),
    ],
)
def test_a_time_that_the_log_does_not_bear_out_is_not_believed(name: str, content: bytes) -> None:
    disk = FakeFileSystem()
    segment = reopened(disk, [LARGE] * 5)
    change(disk, name, content)
    assert segment.largest_timestamp_ms() != NOW_MS + 7_000_000
    assert segment.open_indexes != []


@pytest.mark.parametrize("entry", [(1, 77), (4, LARGE), (0, 1 << 30), (-3, 5)])
def test_an_offset_index_that_points_beside_a_batch_leaves_the_answer_right(
    entry: tuple[int, int],
) -> None:
    disk = FakeFileSystem()
    segment = reopened(disk, [LARGE] * 5)
    change(disk, "index", OFFSET_ENTRY.pack(*entry))
    assert segment.largest_timestamp_ms() == NOW_MS + 100


def test_a_short_log_is_read_itself_whatever_its_index_says() -> None:
    disk = FakeFileSystem()
    segment = reopened(disk, [10, 20, 30])
    change(disk, "timeindex", TIME_ENTRY.pack(NOW_MS + 7_000_000, 1))
    assert segment.largest_timestamp_ms() == NOW_MS + 100
    assert segment.largest.offset == 1
    assert segment.open_indexes == []


def test_a_short_log_with_a_batch_that_fails_its_check_is_not_believed() -> None:
    disk = FakeFileSystem()
    segment = reopened(disk, [10, 20, 30])
    path = segment.log.path
    file = disk.open(path, writable=True)
    file.pwrite(b"\x7f", 35)  # in the first batch's largest timestamp
    file.close()
    assert largest_without_indexes(disk, 0, segment.log) is None


def test_a_file_that_is_gone_is_no_error() -> None:
    disk = FakeFileSystem()
    segment = reopened(disk, [LARGE] * 2)
    disk.remove("data/t-0/00000000000000000000.timeindex")
    assert segment.largest_timestamp_ms() >= 0


def test_a_time_that_is_not_the_last_batches_is_found_all_the_same() -> None:
    assert reopened(FakeFileSystem(), [LARGE] * 5).largest_timestamp_ms() == NOW_MS + 100
