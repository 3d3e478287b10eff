"""Batches of a log that is only read, also while its segments are replaced."""

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError, UserError
from ottla.base.partitions import TopicPartition
from ottla.storage.directory.log_directory import LogDirectory
from ottla.storage.log.partition_log import PartitionLog
from ottla.testing import FakeFileSystem
from tests.support.reading_logs import reading, start_at, values_of


def test_batches_may_reach_over_both_ends_of_a_range(
    disk: FakeFileSystem, log: PartitionLog
) -> None:
    batches = list(reading(disk).batches.read(3, 7))
    assert [(batch.base_offset, batch.last_offset) for batch in batches] == [(2, 3), (4, 5), (6, 7)]


@pytest.mark.parametrize("offset", [-1, 4, 21])
def test_offsets_outside_the_log_are_refused(
    disk: FakeFileSystem, log: PartitionLog, offset: int
) -> None:
    start_at(disk, 5)
    reader = reading(disk)
    assert reader.log_start_offset == 5
    with pytest.raises(ApiError, match="which has 5 to 20") as error:
        reader.batches.read(offset)
    assert error.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
    assert values_of(reader, 5) == list(range(5, 20))


def test_segments_that_retention_removes_under_way_are_missed(
    disk: FakeFileSystem, log: PartitionLog
) -> None:
    reader = reading(disk)
    records = reader.records.read(0)
    assert next(records).offset == 0
    log.maintenance.delete_records_before(reader.segments[3].base_offset)
    for segment in reader.segments[:3]:
        disk.rename(segment.log_path, segment.log_path + ".deleted")
    with pytest.raises(ApiError) as error:
        list(records)
    assert error.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_segments_that_compaction_merges_under_way_are_found(
    disk: FakeFileSystem, log: PartitionLog
) -> None:
    reader = reading(disk)
    records = reader.records.read(0)
    offsets = [next(records).offset]
    first, second, third = reader.segments[:3]
    merged = b"".join(disk.open(one.log_path).pread(one.size, 0) for one in (first, second, third))
    for one in (second, third):
        disk.remove(one.log_path)
    disk.open(first.log_path + ".swap", create=True).pwrite(merged, 0)
    disk.rename(first.log_path + ".swap", first.log_path)
    offsets += [record.offset for record in records]
    assert offsets == list(range(20))


def test_a_partition_that_is_removed_under_way_is_reported(
    disk: FakeFileSystem, broker: LogDirectory, log: PartitionLog
) -> None:
    reader = reading(disk)
    records = reader.records.read(0)
    next(records)
    broker.delete_logs([TopicPartition("t", 0)])
    with pytest.raises(UserError, match="was removed"):
        list(records)
