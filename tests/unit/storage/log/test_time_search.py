"""Which offset a log had at a time, where Kafka's answer is none though a record is there."""

import pytest

from ottla.config.topic import TopicConfig
from ottla.storage.log.partition_log import PartitionLog
from ottla.testing import FakeFileSystem
from tests.support.logs import NOW_MS, TOPIC_ID, batch, open_directory, open_log

TWO_BATCHES = TopicConfig(segment_bytes=180, segment_index_bytes=240)


@pytest.fixture
def disk() -> FakeFileSystem:
    return FakeFileSystem()


@pytest.fixture
def log(disk: FakeFileSystem) -> PartitionLog:
    return filled(open_log(disk, TWO_BATCHES))


def filled(log: PartitionLog) -> PartitionLog:
    """Two records a segment, each of an earlier time than the one before it.

    At 10 and 5, at 20 and 15, at 30 and 25.
    """
    for time_ms in (10, 5, 20, 15, 30, 25):
        log.writer.append_as_leader(
            batch(b"v" * 10, timestamp_ms=time_ms), leader_epoch=0, now_ms=NOW_MS
        )
        log.writer.write_out()
    assert [one.base_offset for one in log.segments.values] == [0, 2, 4]
    return log


def found(log: PartitionLog, *times_ms: int) -> list[int]:
    answers = (log.reader.find_timestamp(one) for one in times_ms)
    return [-1 if one is None else one.offset for one in answers]


def test_the_first_record_as_late_as_a_time_is_found(log: PartitionLog) -> None:
    assert found(log, 0, 5, 10, 11, 20, 30, 31) == [0, 0, 0, 2, 2, 4, -1]


def test_what_was_deleted_hides_later_segments_as_in_kafka(log: PartitionLog) -> None:
    log.maintenance.delete_records_before(1)
    assert found(log, 5, 6, 10, 11) == [1, -1, -1, 2]
    log.maintenance.delete_records_before(3)
    assert found(log, 5, 10, 11, 15, 16, 20, 21) == [-1, -1, 3, 3, -1, -1, 4]


def test_the_answer_comes_back_when_retention_has_taken_the_segment(log: PartitionLog) -> None:
    log.maintenance.delete_records_before(2)
    assert found(log, 5) == [-1]
    log.maintenance.delete_segments_below_start()
    assert found(log, 5) == [2]


def test_a_segment_without_records_is_as_late_as_its_file(disk: FakeFileSystem) -> None:
    directory = open_directory(disk, TWO_BATCHES)
    log = filled(directory.create_log("t", 0, TOPIC_ID))
    first = log.segments.first
    first.log.truncate_to(0)
    first.offset_index.truncate_to(0)
    first.time_index.truncate_to(0)
    directory.close()
    disk.set_modified_ms(first.log.path, 20)
    again = open_log(disk, TWO_BATCHES)
    assert again.segments.first.size == 0
    assert found(again, 5, 20, 21, 30) == [-1, -1, 4, 4]
