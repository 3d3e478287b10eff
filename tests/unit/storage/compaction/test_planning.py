"""What a plan takes over from the log, which goes on meanwhile."""

import pytest

from ottla.storage.compaction.compaction import CompactionPlan
from ottla.storage.compaction.offset_map import SLOT
from ottla.storage.compaction.planning import MapMemory, last_records
from ottla.storage.log.partition_log import PartitionLog
from ottla.testing import FakeFileSystem
from tests.support.compacting import COMPACTED, plan
from tests.support.logs import NOW_MS, append, fill, open_log

LATER_MS = NOW_MS + 1000


@pytest.fixture
def disk() -> FakeFileSystem:
    return FakeFileSystem()


@pytest.fixture
def log(disk: FakeFileSystem) -> PartitionLog:
    log = open_log(disk, COMPACTED)
    for _ in range(3):
        fill(log, 2)
        log.writer.roll(NOW_MS)
    return log


def planned(log: PartitionLog, disk: FakeFileSystem, **settings: object) -> CompactionPlan:
    found = plan(log, disk, now_ms=LATER_MS, **settings)  # type: ignore[arg-type]
    assert found is not None
    return found


def test_the_sources_are_the_segments_below_the_end_with_their_sizes(
    log: PartitionLog, disk: FakeFileSystem
) -> None:
    found = planned(log, disk)
    below = [one for one in log.segments.values if one.base_offset < found.end_offset]
    assert found.end_offset == log.segments.active.base_offset
    assert [one.base_offset for one in found.sources] == [one.base_offset for one in below]
    assert [one.size for one in found.sources] == [one.log.size for one in below]
    assert found.directory == log.directory


def test_a_plan_stays_as_it_was_when_the_log_grows(log: PartitionLog, disk: FakeFileSystem) -> None:
    found = planned(log, disk)
    sources, end = found.sources, found.end_offset
    fill(log, 5)
    log.writer.roll(NOW_MS)
    assert (found.sources, found.end_offset) == (sources, end)
    assert planned(log, disk).end_offset > end


def test_segments_that_could_not_be_read_are_marked(
    log: PartitionLog, disk: FakeFileSystem
) -> None:
    second = log.segments.values[1].base_offset
    found = planned(log, disk, damaged=(second,))
    assert [one.base_offset for one in found.sources if one.is_damaged] == [second]


def test_deletions_are_kept_from_the_last_segment_that_is_clean(
    log: PartitionLog, disk: FakeFileSystem
) -> None:
    assert planned(log, disk).old_horizon_ms == 0
    second = log.segments.values[1].base_offset
    status = disk.status(log.segments.first.log.path)
    assert status is not None
    found = planned(log, disk, cleaned_until=second)
    assert found.first_dirty_offset == second
    assert found.old_horizon_ms == status.modified_ms - COMPACTED.delete_retention_ms


@pytest.mark.parametrize(
    ("memory", "keys"),
    [(MapMemory(size=1 << 20, load_factor=0.5), 25), (MapMemory(size=80, load_factor=0.9), 0)],
)
def test_the_map_takes_no_more_than_a_key_of_each_offset_needs(
    log: PartitionLog, disk: FakeFileSystem, memory: MapMemory, keys: int
) -> None:
    found = planned(log, disk, memory=memory)
    assert found.end_offset - found.first_dirty_offset == 12
    assert found.map_bytes == (keys * SLOT.size if keys else memory.size)


def test_of_each_producer_the_last_offset_of_its_data_is_kept(disk: FakeFileSystem) -> None:
    log = open_log(disk, COMPACTED)
    append(log, b"a", producer_id=4, producer_epoch=2, base_sequence=0)
    append(log, b"b", b"c", producer_id=4, producer_epoch=2, base_sequence=1)
    append(log, b"d", producer_id=9, producer_epoch=0, base_sequence=0)
    found = last_records(log.producers)
    assert {key: (one.data_offset, one.epoch) for key, one in found.items()} == {
        4: (2, 2),
        9: (3, 0),
    }
