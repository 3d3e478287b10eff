"""The producer snapshots of one log: which are taken, read, and removed."""

import pytest

from ottla.base.files import read_file, replace_file
from ottla.storage.log.gradual_snapshot import hash_table_order
from ottla.storage.log.producer_state import ProducerEntry, ProducerState
from ottla.storage.log.snapshot_files import SnapshotFiles
from ottla.testing import FakeFileSystem


@pytest.fixture
def disk() -> FakeFileSystem:
    disk = FakeFileSystem()
    disk.make_directory("t-0")
    return disk


def state(end_offset: int, *producer_ids: int) -> ProducerState:
    made = ProducerState()
    made.load([ProducerEntry(producer_id=one, epoch=3) for one in producer_ids], end_offset)
    return made


def taken(disk: FakeFileSystem, *offsets: int) -> SnapshotFiles:
    files = SnapshotFiles(disk, "t-0")
    for offset in offsets:
        files.take(state(offset, offset))
    return files


def test_a_snapshot_is_taken_once_per_offset(disk: FakeFileSystem) -> None:
    files = taken(disk, 5, 5, 9, 7)
    assert files.offsets == [5, 9]
    assert SnapshotFiles(disk, "t-0").offsets == [5, 9]


def test_the_newest_that_can_be_read_is_loaded(
    disk: FakeFileSystem, caplog: pytest.LogCaptureFixture
) -> None:
    files = taken(disk, 5, 9)
    replace_file(disk, files.path(9), b"torn")
    loaded = ProducerState()
    files.load_newest(loaded, log_start_offset=0)
    assert loaded.map_end_offset == 5
    assert {key: one.epoch for key, one in loaded.entries.items()} == {5: 3}
    assert disk.status(files.path(9)) is None
    assert "it is removed, and an older snapshot is used" in caplog.text


def test_a_whole_one_of_another_log_is_skipped(disk: FakeFileSystem) -> None:
    checksums: dict[int, int] = {}
    files = SnapshotFiles(disk, "t-0", checksums)
    files.take(state(5, 5))
    files.take(state(9, 9))
    assert checksums.keys() == {5, 9}
    disk.make_directory("other-0")
    other = SnapshotFiles(disk, "other-0")
    other.take(state(9, 1))
    replace_file(disk, files.path(9), read_file(disk, other.path(9)))
    loaded = ProducerState()
    files.load_newest(loaded, log_start_offset=0)
    assert (loaded.entries.keys(), checksums.keys()) == ({5}, {5})


def test_without_any_the_state_begins_at_the_logs_start_and_needs_none_there(
    disk: FakeFileSystem,
) -> None:
    files, loaded = SnapshotFiles(disk, "t-0"), state(50, 1)
    files.load_newest(loaded, log_start_offset=20)
    assert (loaded.entries, loaded.map_end_offset) == ({}, 20)
    files.take(loaded)
    assert disk.list("t-0") == []


def test_a_flush_makes_those_between_its_offsets_durable(disk: FakeFileSystem) -> None:
    files = taken(disk, 5, 9, 12)
    assert files.paths(5, 9) == [files.path(5), files.path(9)]
    assert files.paths(6, 8) == []


def test_what_lies_outside_the_log_goes(disk: FakeFileSystem) -> None:
    files = taken(disk, 5, 9, 12)
    files.remove_outside(6, 11)
    assert files.offsets == [9]
    assert len(disk.list("t-0")) == 1


def test_of_strays_only_the_last_stops_stays(disk: FakeFileSystem) -> None:
    files = taken(disk, 5, 9, 12)
    files.remove_strays({0, 9})
    assert files.offsets == [9, 12]


def test_one_that_somebody_else_removes_is_forgotten_and_its_file_stays(
    disk: FakeFileSystem,
) -> None:
    files = taken(disk, 5, 9)
    assert files.retire(7) is None
    assert files.retire(5) == files.path(5)
    assert files.offsets == [9]
    assert disk.status(files.path(5)) is not None


def test_ids_stand_in_the_order_of_javas_hash_map() -> None:
    ids = {one: ProducerEntry(producer_id=one) for one in (17, 1, 16, 3, 0)}
    assert hash_table_order(ids) == [16, 0, 17, 1, 3]
    many = {one: ProducerEntry(producer_id=one) for one in range(20, 0, -1)}
    assert hash_table_order(many) == sorted(many)
