"""A snapshot that is made while its log goes on is of the moment at which it began."""

import random

import pytest

from ottla.base.files import read_file
from ottla.config.topic import TopicConfig
from ottla.storage.index.producer_snapshot import format_snapshot
from ottla.storage.log import maintenance, snapshot_files, writer
from ottla.storage.log.gradual_snapshot import hash_table_order
from ottla.storage.log.partition_log import PartitionLog
from ottla.storage.log.snapshot_files import snapshot_entry
from ottla.testing import CrashMode, FakeFileSystem
from tests.support.logs import NOW_MS, append, open_log

if not hasattr(PartitionLog.__init__, "__code__"):
    pytest.skip("what is compiled has its constants inside", allow_module_level=True)

COUNT = 100
PER_APPEND = 3
LARGE = TopicConfig(segment_bytes=1 << 20)


@pytest.fixture(autouse=True)
def _few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot_files, "AT_ONCE", 20)
    monkeypatch.setattr(writer, "PRODUCERS_PER_APPEND", PER_APPEND)
    monkeypatch.setattr(maintenance, "PRODUCERS_PER_STEP", 60)


@pytest.fixture
def disk() -> FakeFileSystem:
    disk = FakeFileSystem()
    disk.make_directory("data")
    return disk


@pytest.fixture
def log(disk: FakeFileSystem) -> PartitionLog:
    """With many producers, whose ids share buckets of a hash table."""
    log = open_log(disk, LARGE)
    for number in range(COUNT):
        produce(log, number << 11)
    return log


def produce(log: PartitionLog, producer_id: int, sequence: int = 0) -> None:
    append(log, b"v", producer_id=producer_id, producer_epoch=0, base_sequence=sequence)


def whole(log: PartitionLog) -> bytes:
    entries = log.producers.entries
    return format_snapshot([snapshot_entry(entries[one]) for one in hash_table_order(entries)])


def path_of(log: PartitionLog) -> str:
    return log.snapshots.path(log.segments.active.base_offset)


def roll(log: PartitionLog) -> bytes:
    """Returns what a snapshot of this moment holds."""
    expected = whole(log)
    log.writer.roll(NOW_MS)
    assert log.snapshots.is_begun
    return expected


def test_it_is_of_the_roll_whatever_producers_do_meanwhile(
    disk: FakeFileSystem, log: PartitionLog
) -> None:
    expected, chance = roll(log), random.Random(7)
    expired = [7 << 11, 50 << 11, 99 << 11]
    for producer_id in expired:
        del log.producers.entries[producer_id]
    sequences = dict.fromkeys(log.producers.entries, 0)
    number = 0
    while log.snapshots.is_begun:
        number += 1
        assert disk.status(path_of(log)) is None
        one = chance.choice(list(sequences))
        sequences[one] += 1
        produce(log, one, sequences[one])
        if number % 10 == 0 and expired:
            produce(log, expired.pop())
    assert number > COUNT // PER_APPEND
    assert read_file(disk, path_of(log)) == expected
    assert log.producers.snapshot is None


def test_a_crash_before_its_end_loses_no_producer(disk: FakeFileSystem, log: PartitionLog) -> None:
    roll(log)
    produce(log, 0, 1)
    again = open_log(disk.crash(CrashMode.KEEP), LARGE)
    assert again.producers.entries.keys() == log.producers.entries.keys()
    assert again.producers.entries[0].last_sequence == 1


def test_a_flush_goes_on_with_it_and_a_later_one_syncs_it(
    disk: FakeFileSystem, log: PartitionLog
) -> None:
    expected = roll(log)
    plan = log.maintenance.due_flush(0.0)
    assert plan is not None
    assert path_of(log) not in plan.paths
    plan.carry_out(disk)
    log.maintenance.finish_flush(plan, 0.0)
    while log.snapshots.is_begun:
        assert log.maintenance.due_flush(0.0) is None
    assert read_file(disk, path_of(log)) == expected
    produce(log, 0, 1)
    log.writer.roll(NOW_MS)
    later = log.maintenance.due_flush(0.0)
    assert later is not None
    assert log.snapshots.path(COUNT) in later.paths


def test_a_truncation_gives_it_up(disk: FakeFileSystem, log: PartitionLog) -> None:
    roll(log)
    log.maintenance.truncate_to(10, now_ms=NOW_MS)
    assert not log.snapshots.is_begun
    for sequence in range(1, 40):
        produce(log, 0, sequence)
    assert log.snapshots.offsets == []
    assert len(log.producers.entries) == 10


def test_segments_before_it_go_only_with_it_written(
    disk: FakeFileSystem, log: PartitionLog
) -> None:
    expected = roll(log)
    log.maintenance.delete_records_before(COUNT)
    assert len(log.maintenance.delete_segments_below_start()) == 1
    assert read_file(disk, path_of(log)) == expected


def test_a_clean_stop_writes_it(disk: FakeFileSystem, log: PartitionLog) -> None:
    expected = roll(log)
    log.maintenance.close()
    assert read_file(disk, path_of(log)) == expected


def test_the_next_roll_leaves_it_going(disk: FakeFileSystem, log: PartitionLog) -> None:
    expected, path = roll(log), path_of(log)
    produce(log, 0, 1)
    log.writer.roll(NOW_MS)
    assert log.snapshots.offsets == []
    log.snapshots.finish(log.producers)
    assert read_file(disk, path) == expected
    assert log.snapshots.offsets == [COUNT]
