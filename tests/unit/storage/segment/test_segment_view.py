"""The same reads of one segment, found in a directory of this process's or in somebody else's."""

from collections.abc import Iterator

import pytest

from ottla.base.files import read_file
from ottla.config.topic import TopicConfig
from ottla.storage.index.offset_index import ENTRY as OFFSET_ENTRY
from ottla.storage.index.time_index import ENTRY as TIME_ENTRY
from ottla.storage.segment.partition_files import SegmentFiles
from ottla.storage.segment.segment_reader import SegmentReader
from ottla.storage.segment.segment_view import FoundBatch, SegmentView, Trust
from ottla.testing import FakeFileSystem
from tests.support.logs import NOW_MS, TOPIC_ID, append, open_directory

ROOMY = TopicConfig(segment_bytes=1 << 20, index_interval_bytes=100)
STEM = "data/t-0/00000000000000000000"
TIMES_MS = [NOW_MS + offset for offset in (0, 100, 50, 200, 150)]
"""Of five batches, one record each, about as large as an index interval is long."""


@pytest.fixture
def disk() -> FakeFileSystem:
    disk = FakeFileSystem()
    directory = open_directory(disk, ROOMY)
    log = directory.create_log("t", 0, TOPIC_ID)
    for timestamp_ms in TIMES_MS:
        append(log, b"v" * 9000, timestamp_ms=timestamp_ms)
    log.writer.roll(NOW_MS)
    directory.close()
    return disk


@pytest.fixture(params=[Trust.FOUND, Trust.FOREIGN])
def trust(request: pytest.FixtureRequest) -> Trust:
    return Trust(request.param)


@pytest.fixture
def view(disk: FakeFileSystem, trust: Trust) -> Iterator[SegmentView]:
    """Its indexes are not open yet, so that a test may change their files."""
    if trust is Trust.FOUND:
        yield open_directory(disk, ROOMY).logs["t", 0].segments.first
        return
    status = disk.status(f"{STEM}.log")
    assert status is not None
    reader = SegmentReader(
        disk, SegmentFiles(base_offset=0, log_path=f"{STEM}.log", size=status.size)
    )
    yield reader
    reader.close()


def change(disk: FakeFileSystem, kind: str, content: bytes) -> None:
    file = disk.open(f"{STEM}.{kind}", writable=True)
    file.truncate(0)
    file.pwrite(content, 0)
    file.close()


def batches(view: SegmentView) -> list[FoundBatch | None]:
    return [view.translate(offset) for offset in range(len(TIMES_MS) + 1)]


def is_as_it_was(disk: FakeFileSystem, kind: str, content: bytes) -> bool:
    return read_file(disk, f"{STEM}.{kind}") == content


def test_every_batch_is_found_by_its_offset(view: SegmentView) -> None:
    size = view.log.size // len(TIMES_MS)
    expected = [FoundBatch(number, number * size, size) for number in range(len(TIMES_MS))]
    assert batches(view) == [*expected, None]


@pytest.mark.parametrize("entry", [(1, 77), (1, 4 * 9083), (0, 1 << 30), (-3, 5)])
def test_an_offset_entry_that_contradicts_the_log_misleads_no_lookup(
    disk: FakeFileSystem, view: SegmentView, entry: tuple[int, int]
) -> None:
    right = batches_without_index(disk)
    lie = OFFSET_ENTRY.pack(*entry)
    change(disk, "index", lie)
    assert batches(view) == right


def batches_without_index(disk: FakeFileSystem) -> list[FoundBatch | None]:
    files = SegmentFiles(base_offset=0, log_path=f"{STEM}.log", size=0)
    reader = SegmentReader(disk, files)
    reader.refuse_indexes("the test asks for none")
    found = batches(reader)
    reader.close()
    return found


def test_an_index_of_ones_own_is_rebuilt_and_a_foreign_one_left_alone(
    disk: FakeFileSystem, view: SegmentView, trust: Trust
) -> None:
    lie = OFFSET_ENTRY.pack(1, 77)
    change(disk, "index", lie)
    batches(view)
    assert is_as_it_was(disk, "index", lie) == (trust is Trust.FOREIGN)


@pytest.mark.parametrize(
    ("timestamp_ms", "offset"), [(-5, 0), (0, 0), (60, 0), (100, 1), (150, 1), (200, 3), (900, 3)]
)
def test_a_search_for_a_time_begins_at_an_offset_before_it(
    view: SegmentView, timestamp_ms: int, offset: int
) -> None:
    assert view.search_start_offset(NOW_MS + timestamp_ms) <= offset


LIES = [
    TIME_ENTRY.pack(NOW_MS + 7_000_000, 3),
    TIME_ENTRY.pack(NOW_MS + 10, 4),
    TIME_ENTRY.pack(NOW_MS + 10, 0) + TIME_ENTRY.pack(NOW_MS + 20, 4),
    TIME_ENTRY.pack(NOW_MS, 400),
]


@pytest.mark.parametrize("lie", LIES)
def test_a_time_entry_that_contradicts_the_log_hides_no_record(
    disk: FakeFileSystem, view: SegmentView, lie: bytes
) -> None:
    change(disk, "timeindex", lie)
    assert view.search_start_offset(NOW_MS + 100) <= 1
    largest = view.largest_to_end()
    assert (largest.timestamp_ms, largest.offset) == (NOW_MS + 200, 3)


def test_the_largest_timestamp_is_the_time_indexs_last(view: SegmentView) -> None:
    assert (view.largest.timestamp_ms, view.largest.offset) == (NOW_MS + 200, 3)
    assert view.first_timestamp_ms == NOW_MS


def test_without_indexes_a_foreign_segment_is_read_from_its_start(disk: FakeFileSystem) -> None:
    for kind in ("index", "timeindex"):
        disk.remove(f"{STEM}.{kind}")
    reader = SegmentReader(disk, SegmentFiles(base_offset=0, log_path=f"{STEM}.log", size=0))
    assert [one and one.last_offset for one in batches(reader)] == [0, 1, 2, 3, 4, None]
    assert reader.search_start_offset(NOW_MS + 200) == 0
    assert reader.largest_to_end().timestamp_ms == NOW_MS + 200
    reader.close()
