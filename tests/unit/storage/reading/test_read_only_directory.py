"""A log directory that is only read: topics, checkpoints, and what a wrong name is answered."""

from pathlib import Path

import pytest

from ottla.base.errors import CorruptionError, UserError
from ottla.base.files import FileSystem, join, remove_if_present
from ottla.base.partitions import TopicPartition
from ottla.config.topic import TopicConfig
from ottla.metadata.deciding.topics import NewTopic
from ottla.metadata.records import NoOpRecord, RemoveTopicRecord
from ottla.storage.diagnosis.compaction_explanation import read_view
from ottla.storage.diagnosis.retention_explanation import explain_log
from ottla.storage.directory.log_directory import LogDirectory
from ottla.storage.files.checkpoints import OffsetCheckpoint
from ottla.storage.files.filenames import (
    CHECKPOINT_HIGH_WATERMARK,
    CHECKPOINT_LOG_START,
    COPIED_LOG_STARTS,
    INTEGRITY,
    METADATA_MARK,
    REPLICAS_MARK,
    delete_directory_name,
)
from ottla.storage.files.log_starts import copied_starts
from ottla.storage.log.partition_log import PartitionLog
from ottla.storage.reading.read_only_directory import open_for_reading
from ottla.storage.reading.read_only_log import ReadOnlyLog
from ottla.testing import FakeFileSystem
from tests.support import brokers
from tests.support.logs import DIRECTORY, NOW_MS, TOPIC_ID, append, fill, open_directory
from tests.support.metadata import write_records
from tests.support.reading_logs import start_at

TINY = TopicConfig(segment_bytes=250, index_interval_bytes=100, segment_index_bytes=240)


@pytest.fixture
def disk() -> FakeFileSystem:
    return FakeFileSystem()


@pytest.fixture
def broker(disk: FakeFileSystem) -> LogDirectory:
    return open_directory(disk, TINY)


@pytest.fixture
def log(broker: LogDirectory) -> PartitionLog:
    """Ten batches of two records, in several segments."""
    log = broker.create_log("t", 0, TOPIC_ID)
    fill(log, 10)
    assert len(log.segments) > 2
    return log


def reading(disk: FileSystem, topic: str = "t", partition: int = 0) -> ReadOnlyLog:
    return open_for_reading(DIRECTORY, disk).partition(topic, partition)


def test_topics_and_partitions_are_listed(disk: FakeFileSystem, broker: LogDirectory) -> None:
    for topic, partition in (("b", 0), ("a-1", 10), ("a-1", 2)):
        broker.create_log(topic, partition, TOPIC_ID)
    disk.make_directory(join(DIRECTORY, delete_directory_name("gone", 0, bytes(16))))
    disk.open(join(DIRECTORY, "file-0"), create=True).close()
    assert open_for_reading(DIRECTORY, disk).topics() == {"a-1": [2, 10], "b": [0]}


@pytest.mark.parametrize(
    ("path", "told"), [("none", "does not exist"), ("file", "is a file"), ("empty", "neither")]
)
def test_a_path_that_is_no_log_directory_is_named(
    disk: FakeFileSystem, path: str, told: str
) -> None:
    disk.open("file", create=True).close()
    disk.make_directory("empty")
    with pytest.raises(UserError, match=f"^{path} .*{told}"):
        open_for_reading(path, disk)


def test_a_partition_is_no_log_directory(disk: FakeFileSystem, log: PartitionLog) -> None:
    with pytest.raises(UserError, match="single partition"):
        open_for_reading(join(DIRECTORY, "t-0"), disk)


@pytest.mark.parametrize(
    ("topic", "partition", "told"),
    [
        ("t", 3, "no partition 3 of topic t; it has 0$"),
        ("u", 0, "no topic u; it has t$"),
        ("t", -1, "no partition -1"),
        ("../data/t", 0, "no topic"),
    ],
)
def test_a_missing_partition_is_answered_with_those_there_are(
    disk: FakeFileSystem, log: PartitionLog, topic: str, partition: int, told: str
) -> None:
    with pytest.raises(UserError, match=told):
        reading(disk, topic, partition)


def test_many_topics_are_not_all_named(disk: FakeFileSystem, broker: LogDirectory) -> None:
    for number in range(13):
        broker.create_log(f"t{number}", 0, TOPIC_ID)
    with pytest.raises(UserError, match="and 3 more"):
        reading(disk, "none")


def test_a_directory_without_read_permission_is_named(tmp_path: Path) -> None:
    class Forbidding(FakeFileSystem):
        def list(self, directory: str) -> list[str]:
            raise PermissionError(13, "Permission denied", directory)

    with pytest.raises(UserError, match="no permission to read"):
        open_for_reading(str(tmp_path), Forbidding())


def test_checkpoints_of_one_size_written_within_one_tick_are_distinguished(
    disk: FakeFileSystem, log: PartitionLog
) -> None:
    directory = open_for_reading(DIRECTORY, disk)
    for offset in (5, 6):
        start_at(disk, offset)
        assert directory.partition("t", 0).log_start_offset == offset


def test_facts_about_segments_are_parsed_once_until_their_file_changes(
    disk: FakeFileSystem, log: PartitionLog
) -> None:
    fill(log, 2)
    log.writer.roll(NOW_MS)
    directory = open_for_reading(DIRECTORY, disk)
    first = directory.integrity_of(log.directory)
    assert first is not None
    assert directory.integrity_of(log.directory) is first
    log.writer.roll(NOW_MS)
    fill(log, 1)
    log.writer.roll(NOW_MS)
    later = directory.integrity_of(log.directory)
    assert later is not None
    assert first.segments.keys() < later.segments.keys()
    disk.remove(join(log.directory, INTEGRITY))
    assert directory.integrity_of(log.directory) is None


def test_one_broker_of_a_cluster_counts_what_others_had_also_after_a_clean_stop(
    disk: FakeFileSystem, broker: LogDirectory, log: PartitionLog
) -> None:
    broker.checkpoints.write()
    append(log, b"20")
    broker.close()
    for name in (METADATA_MARK, REPLICAS_MARK):
        disk.open(join(DIRECTORY, name), create=True)
    OffsetCheckpoint(disk, join(DIRECTORY, CHECKPOINT_HIGH_WATERMARK)).write({("t", 0): 15})
    reader = reading(disk)
    assert reader.directory.was_stopped_cleanly
    assert (reader.offsets.high_watermark, reader.log_end_offset) == (15, 21)
    assert explain_log(reader, TINY, NOW_MS, disk).facts.high_watermark == 15
    assert read_view(reader, None, disk).last_stable_offset == 15
    remove_if_present(disk, join(DIRECTORY, REPLICAS_MARK))
    assert explain_log(reading(disk), TINY, NOW_MS, disk).facts.high_watermark == 21


def test_a_damaged_checkpoint_is_reported(disk: FakeFileSystem, log: PartitionLog) -> None:
    for name in (CHECKPOINT_LOG_START, CHECKPOINT_HIGH_WATERMARK):
        disk.open(join(DIRECTORY, name), create=True).pwrite(b"1\n", 0)
    remove_if_present(disk, join(DIRECTORY, COPIED_LOG_STARTS))
    reader = reading(disk)
    with pytest.raises(CorruptionError, match="version 1"):
        _ = reader.log_start_offset


def test_of_two_starts_the_one_with_a_checksum_counts(
    disk: FakeFileSystem, log: PartitionLog
) -> None:
    start_at(disk, 5)
    OffsetCheckpoint(disk, join(DIRECTORY, CHECKPOINT_LOG_START)).write({("t", 0): 7})
    assert reading(disk).log_start_offset == 5


def test_the_starts_of_all_logs_are_read_once_and_again_when_they_change(
    disk: FakeFileSystem, log: PartitionLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []

    def counting(files: FileSystem, path: str) -> dict[TopicPartition, int] | None:
        read.append(path)
        return copied_starts(files, path)

    monkeypatch.setattr("ottla.storage.reading.read_only_directory.copied_starts", counting)
    directory = open_for_reading(DIRECTORY, disk)
    start_at(disk, 5)
    assert [directory.log_start("t", 0) for _ in range(3)] == [5, 5, 5]
    assert len(read) == 1
    start_at(disk, 12345)
    assert directory.log_start("t", 0) == 12345


def test_what_an_idle_leader_writes_does_not_have_the_metadata_log_read_again() -> None:
    files = brokers.disk("/d")
    broker = brokers.open_broker(files)
    broker.admin.create_topic(NewTopic(name="t"))
    broker.close()
    directory = open_for_reading("/d", files)
    assert not directory.is_tiered("t")
    known = directory._topics()
    write_records(files, NoOpRecord())
    assert directory._topics() is known
    topic_id = known.entries["t"].topic_id
    write_records(files, RemoveTopicRecord(topic_id=topic_id))
    write_records(files, NoOpRecord())
    assert not directory._topics().entries
