"""A log that has lost its integrity file, too, hides no segment that is gone."""

import pytest

from ottla.base.errors import CorruptionError
from ottla.base.files import join, read_file, replace_file
from ottla.base.partitions import TopicPartition
from ottla.storage.diagnosis.directory_check import check
from ottla.storage.diagnosis.repair import RepairOptions, repair
from ottla.storage.files.filenames import INTEGRITY
from ottla.storage.files.integrity import blank_integrity
from ottla.storage.findings import Finding, FindingKind
from ottla.storage.log.partition_log import PartitionLog
from ottla.storage.reading.read_only_directory import open_for_reading
from ottla.testing import FakeFileSystem
from tests.support.compacting import COMPACTED
from tests.support.logs import DIRECTORY, NOW_MS, SMALL, TOPIC_ID, fill, open_directory

KEY = TopicPartition("t", 0)
PARTITION = join(DIRECTORY, "t-0")
FILE = join(PARTITION, INTEGRITY)
GONE, NEXT, END = 12, 22, 24
"""Base offsets: of three segments the middle one goes."""


@pytest.fixture(params=["deleted", "damaged", "empty"])
def disk(request: pytest.FixtureRequest) -> FakeFileSystem:
    """A log without its integrity file, beside one that has its own."""
    disk = stopped()
    if request.param == "deleted":
        disk.remove(FILE)
    else:
        replace_file(disk, FILE, b"nonsense" if request.param == "damaged" else b"")
    return disk


def stopped(*, is_alone: bool = False) -> FakeFileSystem:
    disk = FakeFileSystem()
    directory = open_directory(disk)
    fill(directory.create_log(*KEY, TOPIC_ID), END // 2)
    if not is_alone:
        fill(directory.create_log("t", 1, TOPIC_ID), 1)
    directory.close()
    return disk


def lose_segment(disk: FakeFileSystem, base_offset: int) -> None:
    files = [one for one in disk.list(PARTITION) if one.startswith(f"{base_offset:020d}.")]
    assert files
    for name in files:
        disk.remove(join(PARTITION, name))


def offsets(disk: FakeFileSystem, reported: list[Finding] | None = None) -> list[int]:
    on_damage = None if reported is None else reported.append
    log = open_for_reading(DIRECTORY, disk, on_damage=on_damage).partition("t", 0)
    return [one.offset for one in log.records.read(log.log_start_offset)]


def start(disk: FakeFileSystem) -> PartitionLog:
    directory = open_directory(disk)
    directory.close()
    return directory.logs[KEY]


def check_that_readers_raise(disk: FakeFileSystem) -> None:
    with pytest.raises(CorruptionError, match=f"offsets {GONE} to {NEXT - 1} cannot be read"):
        offsets(disk)
    reported: list[Finding] = []
    assert offsets(disk, reported) == [*range(GONE), *range(NEXT, END)]
    assert [(one.from_offset, one.until_offset) for one in reported] == [(GONE, NEXT)]
    kinds = {one.kind for one in check(disk, DIRECTORY).findings}
    assert FindingKind.LOST_OFFSETS in kinds


def test_starts_and_readers_name_a_segment_that_is_gone_between_two(
    disk: FakeFileSystem, caplog: pytest.LogCaptureFixture
) -> None:
    lose_segment(disk, GONE)
    check_that_readers_raise(disk)
    for _ in range(2):
        caplog.clear()
        start(disk)
        assert f"offsets {GONE} to {NEXT - 1} are lost" in caplog.text
        check_that_readers_raise(disk)


def test_a_segment_that_is_gone_before_the_first_is_named(
    disk: FakeFileSystem, caplog: pytest.LogCaptureFixture
) -> None:
    lose_segment(disk, 0)
    with pytest.raises(CorruptionError, match="the segments before it are missing"):
        offsets(disk)
    assert start(disk).log_start_offset == GONE
    assert f"offsets 0 to {GONE - 1} are lost" in caplog.text


def test_a_segment_that_is_put_back_is_served_again(disk: FakeFileSystem) -> None:
    names = [one for one in disk.list(PARTITION) if one.startswith(f"{GONE:020d}.")]
    kept = {one: read_file(disk, join(PARTITION, one)) for one in names}
    lose_segment(disk, GONE)
    start(disk)
    for name, content in kept.items():
        replace_file(disk, join(PARTITION, name), content)
    assert offsets(disk) == list(range(END))
    start(disk)
    assert check(disk, DIRECTORY).is_sound


@pytest.mark.parametrize("is_started", [False, True])
def test_a_repair_accepts_it(
    disk: FakeFileSystem, is_started: bool, caplog: pytest.LogCaptureFixture
) -> None:
    lose_segment(disk, GONE)
    if is_started:
        start(disk)
    repair(disk, DIRECTORY, RepairOptions(now_ms=NOW_MS))
    caplog.clear()
    assert offsets(disk) == [*range(GONE), *range(NEXT, END)]
    start(disk)
    assert offsets(disk) == [*range(GONE), *range(NEXT, END)]
    assert caplog.text == ""


def test_without_a_loss_a_start_says_that_the_file_is_missing(
    disk: FakeFileSystem, caplog: pytest.LogCaptureFixture
) -> None:
    assert offsets(disk) == list(range(END))
    start(disk)
    assert f"{FILE} is missing or damaged, and Kafka" in caplog.text
    assert "lost" not in caplog.text
    assert check(disk, DIRECTORY).is_sound


def test_of_a_compacted_log_only_the_missing_file_is_named(
    disk: FakeFileSystem, caplog: pytest.LogCaptureFixture
) -> None:
    lose_segment(disk, GONE)
    open_directory(disk, COMPACTED).close()
    assert f"{FILE} is missing or damaged, and Kafka" in caplog.text
    assert "are lost" not in caplog.text


def test_a_writer_that_leaves_gaps_blanks_the_file(caplog: pytest.LogCaptureFixture) -> None:
    disk = stopped()
    blank_integrity(disk, PARTITION)
    lose_segment(disk, GONE)
    assert offsets(disk) == [*range(GONE), *range(NEXT, END)]
    start(disk)
    assert caplog.text == ""


def test_after_kafka_a_gap_is_no_loss(caplog: pytest.LogCaptureFixture) -> None:
    """Of the only log of a directory, the missing file may mean that Kafka has been there."""
    disk = stopped(is_alone=True)
    disk.remove(FILE)
    blank_integrity(disk, PARTITION)
    assert disk.status(FILE) is None
    lose_segment(disk, GONE)
    assert offsets(disk) == [*range(GONE), *range(NEXT, END)]
    assert open_directory(disk, SMALL).logs[KEY].log_end_offset == END
    assert caplog.text == ""
