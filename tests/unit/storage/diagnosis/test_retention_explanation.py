"""What retention makes of a log, read from its files while a broker writes them."""

from dataclasses import replace

import pytest

from ottla.base.files import replace_file
from ottla.config.topic import TopicConfig
from ottla.storage.diagnosis.retention_explanation import ExplainedLog, SegmentOnDisk, explain_log
from ottla.storage.log.partition_log import PartitionLog
from ottla.storage.reading.read_only_directory import open_for_reading
from ottla.storage.retention.retention import Rule
from ottla.testing import FakeClock, FakeFileSystem
from tests.support.logs import DIRECTORY, NOW_MS, TOPIC_ID, append, open_directory

HOUR_MS = 3_600_000
SMALL = TopicConfig(segment_bytes=200, retention_ms=5 * HOUR_MS)


@pytest.fixture
def disk() -> FakeFileSystem:
    return FakeFileSystem(FakeClock(NOW_MS))


@pytest.fixture
def log(disk: FakeFileSystem) -> PartitionLog:
    """A record each hour, eight hours ago and since, each in a segment of its own."""
    log = open_directory(disk, SMALL).create_log("t", 0, TOPIC_ID)
    for age in range(8, 0, -1):
        append(log, b"x" * 100, timestamp_ms=NOW_MS - age * HOUR_MS)
    return log


def explained(disk: FakeFileSystem, config: TopicConfig = SMALL) -> ExplainedLog:
    found = open_for_reading(DIRECTORY, disk).partition("t", 0)
    return explain_log(found, config, NOW_MS, disk)


def test_each_segment_has_a_verdict_and_the_time_that_it_goes_by(
    disk: FakeFileSystem, log: PartitionLog
) -> None:
    found = explained(disk)
    assert (found.topic, found.partition) == ("t", 0)
    assert [one.time.timestamp_ms for one in found.segments] == [
        NOW_MS - age * HOUR_MS for age in range(8, 0, -1)
    ]
    assert all(one.time.is_of_records for one in found.segments)
    going = [one.verdict.rule for one in found.segments if one.verdict.rule is not None]
    assert going == [Rule.TIME] * 3
    assert found.facts.size == log.size


def test_other_settings_may_be_asked_for(disk: FakeFileSystem, log: PartitionLog) -> None:
    config = replace(SMALL, retention_ms=-1, retention_bytes=log.size - 1)
    found = explained(disk, config)
    assert [one.verdict.rule for one in found.segments if one.verdict.rule is not None] == []
    less = replace(config, retention_bytes=log.size - 2 * (log.size // 8))
    rules = [one.verdict.rule for one in explained(disk, less).segments]
    assert rules[:3] == [Rule.SIZE, Rule.SIZE, None]


def test_a_segment_whose_records_have_no_time_goes_by_its_files(
    disk: FakeFileSystem,
) -> None:
    log = open_directory(disk, SMALL).create_log("t", 0, TOPIC_ID)
    append(log, b"x", timestamp_ms=-1)
    (found,) = explained(disk).segments
    assert (found.time.timestamp_ms, found.time.is_of_records) == (NOW_MS, False)


def test_what_waits_to_be_removed_is_counted(disk: FakeFileSystem, log: PartitionLog) -> None:
    replace_file(disk, f"{log.directory}/{0:020d}.log.deleted", b"x" * 30)
    replace_file(disk, f"{log.directory}/{0:020d}.index.deleted", b"x" * 8)
    replace_file(disk, f"{log.directory}/notes.deleted", b"not ours")
    found = explained(disk)
    assert (found.waiting_count, found.waiting_size) == (2, 38)


def test_a_segment_that_retention_takes_meanwhile_has_no_time(
    disk: FakeFileSystem, log: PartitionLog
) -> None:
    files = open_for_reading(DIRECTORY, disk).partition("t", 0).segments[0]
    disk.remove(files.log_path)
    segment = SegmentOnDisk(disk, files, is_active=False)
    assert segment.time().timestamp_ms <= 0
    assert segment.first_timestamp_ms() == -1
