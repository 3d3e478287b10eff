"""Every `.log` becomes a segment, and an index that is missing or lies is rebuilt."""

import pytest

from ottla.base.files import read_file, replace_file
from ottla.storage.recovery.opening import open_segments
from ottla.storage.segment.segment_recovery import has_true_last_entries
from ottla.testing import FakeFileSystem
from tests.support.recovering import COUNT, damage, killed, live, opened


@pytest.fixture
def disk() -> FakeFileSystem:
    return killed()


def sealed(disk: FakeFileSystem) -> int:
    """The base offset of the last segment, below which all is as it was flushed."""
    return int(live(disk, ".log")[-1].rpartition("/")[2].removesuffix(".log"))


def test_each_log_file_is_a_segment(disk: FakeFileSystem) -> None:
    log = opened(disk)
    open_segments(log)
    assert [one.log.path for one in log.segments.values] == live(disk, ".log")
    assert log.base_offsets == [one.base_offset for one in log.segments.values]
    assert log.wrong_files == []


@pytest.mark.parametrize("ending", [".index", ".timeindex", ".txnindex"])
def test_an_index_without_a_log_goes(disk: FakeFileSystem, ending: str) -> None:
    orphan = f"data/t-0/{9999:020d}{ending}"
    disk.open(orphan, create=True).close()
    open_segments(opened(disk))
    assert disk.status(orphan) is None


@pytest.mark.parametrize("ending", [".index", ".timeindex"])
@pytest.mark.parametrize("was_clean_stop", [True, False])
def test_a_missing_index_of_a_flushed_segment_is_rebuilt(
    disk: FakeFileSystem, ending: str, was_clean_stop: bool
) -> None:
    open_segments(opened(disk, was_clean_stop=True))
    path = live(disk, ending)[1]
    before = read_file(disk, path)
    disk.remove(path)
    point = COUNT if was_clean_stop else sealed(disk)
    log = opened(disk, was_clean_stop=was_clean_stop, recovery_point=point)
    open_segments(log)
    segment = log.segments.values[1]
    assert disk.status(path) is not None
    assert has_true_last_entries(segment)
    # In use an index has room for entries to come.
    assert read_file(disk, path).rstrip(b"\0") == before.rstrip(b"\0")


def test_segments_from_the_recovery_point_on_are_left_to_the_next_phase(
    disk: FakeFileSystem,
) -> None:
    for path in live(disk, ".index"):
        disk.remove(path)
    open_segments(opened(disk, recovery_point=0))
    assert live(disk, ".index") == []


def test_the_file_of_another_segment_is_kept_and_not_served(
    disk: FakeFileSystem, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = live(disk, ".log")[:2]
    content = read_file(disk, second)
    replace_file(disk, first, content)
    log = opened(disk)
    open_segments(log)
    assert [one.log.path for one in log.wrong_files] == [first]
    assert first not in [one.log.path for one in log.segments.values]
    assert [one.log.path for one in log.all_files] == live(disk, ".log")
    assert read_file(disk, first) == content
    assert "it is kept, and not served" in caplog.text


def test_an_offset_index_whose_last_entry_lies_before_the_recovery_point_is_rebuilt(
    disk: FakeFileSystem,
) -> None:
    open_segments(opened(disk, was_clean_stop=True))
    recovered_from = sealed(disk)
    path = live(disk, ".index")[-2]
    entries = read_file(disk, path).rstrip(b"\0")
    damage(disk, path, len(entries) - 1)
    log = opened(disk, recovery_point=recovered_from)
    open_segments(log)
    assert has_true_last_entries(log.segments.values[-2])
    assert read_file(disk, path).rstrip(b"\0") == entries
