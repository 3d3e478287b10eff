"""A log directory beside the broker that writes it, and what it left when it died."""

from ottla.base.files import join
from ottla.storage.directory.log_directory import LogDirectory
from ottla.storage.files.filenames import log_file_name
from ottla.storage.log.partition_log import PartitionLog
from ottla.testing import FakeFileSystem
from tests.support.logs import DIRECTORY, TOPIC_ID, append
from tests.support.reading_logs import reading, values_of


def test_what_a_broker_is_writing_is_read(disk: FakeFileSystem, log: PartitionLog) -> None:
    reader = reading(disk)
    assert (reader.log_start_offset, reader.log_end_offset) == (0, 20)
    assert reader.topic_id == TOPIC_ID
    assert values_of(reader) == list(range(20))
    assert [one.base_offset for one in reader.segments] == [
        segment.base_offset for segment in log.segments.from_offset(0)
    ]
    append(log, b"20")
    assert values_of(reader) == list(range(20))
    assert values_of(reading(disk)) == list(range(21))


def test_an_empty_log_file_inside_a_segment_hides_none_of_its_records(
    disk: FakeFileSystem, broker: LogDirectory, log: PartitionLog
) -> None:
    first, *_, last = [one.base_offset for one in log.segments.from_offset(0)]
    for inside in (first + 1, last + 1):
        disk.open(join(DIRECTORY, "t-0", log_file_name(inside)), create=True).close()
    reader = reading(disk)
    assert [first, last] == [reader.segments[0].base_offset, reader.segments[-1].base_offset]
    assert (reader.log_end_offset, values_of(reader)) == (20, list(range(20)))


def test_nothing_is_written(disk: FakeFileSystem, broker: LogDirectory, log: PartitionLog) -> None:
    broker.close()
    before = {name: disk.list(join(DIRECTORY, name)) for name in ("t-0", "")}
    reader = reading(disk)
    list(reader.records.read(0, read_committed=True))
    assert reader.offsets.high_watermark == 20
    assert {name: disk.list(join(DIRECTORY, name)) for name in ("t-0", "")} == before


def test_an_empty_log_has_no_records(disk: FakeFileSystem, broker: LogDirectory) -> None:
    broker.create_log("t", 0, TOPIC_ID)
    reader = reading(disk)
    assert (reader.log_start_offset, reader.log_end_offset, reader.offsets.high_watermark) == (
        0,
        0,
        0,
    )
    assert list(reader.records.read(0)) == []
    assert list(reader.batches.read(0, 100)) == []


def test_a_partition_being_made_is_an_empty_log(disk: FakeFileSystem, log: PartitionLog) -> None:
    disk.make_directory(join(DIRECTORY, "t-1"))
    reader = reading(disk, partition=1)
    assert reader.segments == []
    assert (reader.log_start_offset, reader.log_end_offset) == (0, 0)
    assert reader.topic_id is None
    assert list(reader.records.read(0, read_committed=True)) == []
