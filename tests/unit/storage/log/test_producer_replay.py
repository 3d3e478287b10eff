"""What the producers did, out of snapshots and batches: the same wherever the replay begins."""

import pytest

from ottla.base.files import join
from ottla.storage.log.partition_log import PartitionLog
from ottla.storage.log.producer_replay import rebuild_producers
from ottla.storage.log.producer_state import ProducerState
from ottla.storage.log.snapshot_files import SnapshotFiles
from ottla.testing import FakeFileSystem
from tests.support.logs import append, open_log

DIRECTORY = "data/t-0"
PRODUCERS = (7, 8)


@pytest.fixture
def disk() -> FakeFileSystem:
    return FakeFileSystem()


@pytest.fixture
def log(disk: FakeFileSystem) -> PartitionLog:
    """Two producers that take turns over several segments."""
    log = open_log(disk)
    for number in range(8):
        for producer_id in PRODUCERS:
            append(
                log, b"x" * 40,
                producer_id=producer_id, producer_epoch=1, base_sequence=number,
            )  # fmt: skip
    assert len(log.segments.values) > 2
    return log


def rebuilt(
    disk: FakeFileSystem, log: PartitionLog, until_offset: int, start: int = 0
) -> dict[int, tuple[int, int]]:
    """The last sequence and offset of each producer."""
    state = ProducerState()
    rebuild_producers(
        state,
        SnapshotFiles(disk, DIRECTORY),
        log.segments,
        log_start_offset=start,
        until_offset=until_offset,
    )
    assert state.map_end_offset == until_offset
    last = {one: state.entries[one].last_batch for one in PRODUCERS if one in state.entries}
    return {one: (batch.last_sequence, batch.last_offset) for one, batch in last.items() if batch}


def snapshots(disk: FakeFileSystem) -> list[str]:
    return [name for name in disk.list(DIRECTORY) if name.endswith(".snapshot")]


@pytest.mark.parametrize("until_offset", [1, 2, 7, 15, 16])
@pytest.mark.parametrize("has_snapshots", [True, False])
def test_a_replay_ends_at_the_offset_that_is_asked_for(
    disk: FakeFileSystem, log: PartitionLog, until_offset: int, has_snapshots: bool
) -> None:
    if not has_snapshots:
        for name in snapshots(disk):
            disk.remove(join(DIRECTORY, name))
    found = rebuilt(disk, log, until_offset)
    expected = {7: (until_offset - 1) // 2, 8: (until_offset - 2) // 2}
    assert found == {
        producer_id: (sequence, sequence * 2 + (producer_id == 8))
        for producer_id, sequence in expected.items()
        if sequence >= 0
    }


def test_snapshots_outside_the_log_are_removed(disk: FakeFileSystem, log: PartitionLog) -> None:
    first, *_, last = sorted(int(name[:20]) for name in snapshots(disk))
    rebuilt(disk, log, last - 1, start=first + 1)
    left = [int(name[:20]) for name in snapshots(disk)]
    assert all(first < one < last for one in left)


def test_what_comes_after_damage_in_a_segment_is_not_known_and_that_is_named(
    disk: FakeFileSystem, log: PartitionLog, caplog: pytest.LogCaptureFixture
) -> None:
    for name in snapshots(disk):
        disk.remove(join(DIRECTORY, name))
    path = log.segments.first.log.path
    size = log.segments.first.log.size // log.segments.values[1].base_offset
    disk.open(path, writable=True).pwrite(bytes([255]) * 12, size)
    found = rebuilt(disk, log, log.segments.values[1].base_offset)
    assert found == {7: (0, 0)}
    assert f"{path} at byte {size}" in caplog.text
    assert "the state of its producers after it is unknown" in caplog.text
