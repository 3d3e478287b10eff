"""What is gone of a log is named, also where compaction was, or where its checkpoints are gone."""

from dataclasses import replace

import pytest

from ottla.base.errors import CorruptionError
from ottla.base.files import join, read_file, remove_if_present, replace_file
from ottla.base.partitions import TopicPartition
from ottla.storage.diagnosis.directory_check import check
from ottla.storage.diagnosis.repair import RepairOptions, repair
from ottla.storage.files.filenames import (
    CHECKPOINT_HIGH_WATERMARK,
    CHECKPOINT_LOG_START,
    CHECKPOINT_RECOVERY_POINT,
    COPIED_LOG_STARTS,
    INTEGRITY,
    log_file_name,
)
from ottla.storage.files.integrity import integrity_text, parse_integrity
from ottla.storage.findings import Finding, FindingKind
from ottla.storage.reading.read_only_directory import open_for_reading
from ottla.testing import CrashMode, FakeFileSystem
from tests.support.compacting import COMPACTED, Roll, Write, clean, keeper_of
from tests.support.logs import DIRECTORY, NOW_MS, TOPIC_ID, fill, open_directory

KEY = TopicPartition("t", 0)
PARTITION = join(DIRECTORY, "t-0")
FIRST, GONE, NEXT = 0, 4, 8
"""Base offsets: each of these segments holds four keys, of which compaction takes one."""


def compacted(*, is_clean: bool, value_size: int = 100) -> FakeFileSystem:
    disk = FakeFileSystem()
    keeper = keeper_of(disk)
    for number in range(4):
        keys = ((b"%d-%d" % (number, one), b"x" * value_size) for one in range(3))
        keeper.carry_out(Write((next(keys), (b"each", b"%d" % number))))
        keeper.carry_out(Write(tuple(keys)))
        keeper.carry_out(Roll())
    keeper.finish()
    keeper.log.writer.flush()
    clean(keeper.log, disk)
    disk = disk.crash(CrashMode.KEEP)
    directory = open_directory(disk, COMPACTED)
    directory.checkpoints.write()
    if not is_clean:
        return disk.crash(CrashMode.KEEP)
    directory.close()
    return disk


@pytest.fixture(params=[True, False], ids=["stopped", "killed"])
def disk(request: pytest.FixtureRequest) -> FakeFileSystem:
    return compacted(is_clean=request.param)


def lose_segment(disk: FakeFileSystem) -> None:
    files = [one for one in disk.list(PARTITION) if one.startswith(f"{GONE:020d}.")]
    assert files
    for name in files:
        disk.remove(join(PARTITION, name))


def cut_segment(disk: FakeFileSystem, batch_count: int) -> None:
    """At a batch's end, so that nothing torn is left."""
    file = disk.open(join(PARTITION, log_file_name(GONE)), writable=True)
    size = 0
    for _ in range(batch_count):
        size += 12 + int.from_bytes(file.pread(4, size + 8), "big")
    assert size < file.size()
    file.truncate(size)
    file.sync()


def named(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [one for one in caplog.messages if "are lost" in one]


def offsets(disk: FakeFileSystem, from_offset: int, reported: list[Finding] | None) -> list[int]:
    on_damage = None if reported is None else reported.append
    log = open_for_reading(DIRECTORY, disk, on_damage=on_damage).partition("t", 0)
    return [one.offset for one in log.records.read(from_offset)]


def test_each_start_names_the_offsets(
    disk: FakeFileSystem, caplog: pytest.LogCaptureFixture
) -> None:
    lose_segment(disk)
    for _ in range(2):
        caplog.clear()
        open_directory(disk, COMPACTED).close()
        assert len(named(caplog)) == 1
        assert f"offsets {GONE} to {NEXT - 1} are lost" in named(caplog)[0]


@pytest.mark.parametrize("batch_count", [0, 1])
def test_a_segment_that_has_lost_its_end_is_named_and_not_read_over(
    disk: FakeFileSystem, batch_count: int, caplog: pytest.LogCaptureFixture
) -> None:
    before = offsets(disk, FIRST, None)
    cut_segment(disk, batch_count)
    lost = [GONE, GONE + 2, GONE + 3][batch_count:]
    kinds = [one.kind for one in check(disk, DIRECTORY).findings]
    assert FindingKind.LOST_OFFSETS in kinds
    for from_offset in (FIRST, GONE):
        with pytest.raises(CorruptionError, match=f"to {NEXT - 1} cannot be read"):
            offsets(disk, from_offset, None)
    reported: list[Finding] = []
    assert offsets(disk, FIRST, reported) == [one for one in before if one not in lost]
    assert [one.until_offset for one in reported] == [NEXT]
    for _ in range(2):
        caplog.clear()
        open_directory(disk, COMPACTED).close()
        assert len(named(caplog)) == 1
        assert f"to {NEXT - 1} are lost" in named(caplog)[0]


@pytest.mark.parametrize("from_offset", [FIRST, GONE, GONE + 2])
def test_a_reader_of_files_raises_or_reports_it(disk: FakeFileSystem, from_offset: int) -> None:
    before = offsets(disk, from_offset, None)
    lose_segment(disk)
    with pytest.raises(CorruptionError, match=rf"offsets \d to {NEXT - 1} cannot be read"):
        offsets(disk, from_offset, None)
    reported: list[Finding] = []
    left = offsets(disk, from_offset, reported)
    assert left == [one for one in before if not GONE <= one < NEXT]
    assert [(one.from_offset, one.until_offset) for one in reported] == [
        (max(GONE, from_offset), NEXT)
    ]


def test_a_check_finds_it_and_a_repair_accepts_it(
    disk: FakeFileSystem, caplog: pytest.LogCaptureFixture
) -> None:
    lose_segment(disk)
    kinds = [(one.kind, one.reason) for one in check(disk, DIRECTORY).findings]
    assert (
        FindingKind.LOST_OFFSETS,
        f"the batches before it are missing; offsets {GONE} to {NEXT - 1} are lost",
    ) in kinds
    repair(disk, DIRECTORY, RepairOptions(now_ms=NOW_MS))
    caplog.clear()
    open_directory(disk, COMPACTED).close()
    assert named(caplog) == []


def test_nothing_is_named_that_is_there(
    disk: FakeFileSystem, caplog: pytest.LogCaptureFixture
) -> None:
    open_directory(disk, COMPACTED).close()
    assert named(caplog) == []
    assert FindingKind.LOST_OFFSETS not in {one.kind for one in check(disk, DIRECTORY).findings}


def test_nothing_is_named_where_kafka_has_been(
    disk: FakeFileSystem, caplog: pytest.LogCaptureFixture
) -> None:
    """Kafka removes the integrity file when it loads the log, and may then have compacted it."""
    remove_if_present(disk, join(PARTITION, INTEGRITY))
    lose_segment(disk)
    left = offsets(disk, FIRST, None)
    open_directory(disk, COMPACTED).close()
    assert named(caplog) == []
    assert offsets(disk, FIRST, None) == left


@pytest.mark.parametrize("is_clean", [True, False])
def test_segments_that_compaction_has_merged_are_no_loss(
    is_clean: bool, caplog: pytest.LogCaptureFixture
) -> None:
    disk = compacted(is_clean=is_clean, value_size=10)
    assert offsets(disk, FIRST, None)
    log = open_directory(disk, COMPACTED).logs[KEY]
    assert [one.base_offset for one in log.segments.values][:2] == [FIRST, NEXT]
    assert named(caplog) == []
    assert FindingKind.LOST_OFFSETS not in {one.kind for one in check(disk, DIRECTORY).findings}


# Two things are gone at once


def small_log(*, is_clean: bool = True) -> FakeFileSystem:
    """Segments 0, 8 and 16 of eight offsets, of which DeleteRecords has taken up to 3."""
    disk = FakeFileSystem()
    directory = open_directory(disk)
    log = directory.create_log(*KEY, TOPIC_ID)
    fill(log, 12)
    log.maintenance.delete_records_before(3)
    directory.checkpoints.write()
    if not is_clean:
        return disk.crash(CrashMode.KEEP)
    directory.close()
    return disk


@pytest.mark.parametrize("is_clean", [True, False])
def test_where_both_files_of_log_starts_are_gone_the_epochs_say_where_a_log_starts(
    is_clean: bool, caplog: pytest.LogCaptureFixture
) -> None:
    disk = small_log(is_clean=is_clean)
    for name in (CHECKPOINT_LOG_START, COPIED_LOG_STARTS):
        disk.remove(join(DIRECTORY, name))
    assert open_for_reading(DIRECTORY, disk).partition("t", 0).log_start_offset == 3
    assert open_directory(disk).logs[KEY].log_start_offset == 3
    assert (
        f"{CHECKPOINT_LOG_START} and {COPIED_LOG_STARTS} in data are missing or empty"
        in caplog.text
    )


def test_where_the_recovery_points_are_gone_high_watermarks_say_what_the_last_file_held(
    caplog: pytest.LogCaptureFixture,
) -> None:
    disk = small_log()
    disk.remove(join(DIRECTORY, CHECKPOINT_RECOVERY_POINT))
    last = max(one for one in disk.list(PARTITION) if one.endswith(".log"))
    base_offset = int(last[:20])
    disk.remove(join(PARTITION, last))
    with pytest.raises(CorruptionError, match=f"offsets {base_offset} to 23 cannot be read"):
        offsets(disk, 3, None)
    assert open_directory(disk).logs[KEY].log_end_offset == 24
    assert f"ends at offset {base_offset}, but at its clean shutdown it ended at 24" in caplog.text


def test_a_last_file_without_a_batch_hides_none_before_it_where_all_checkpoints_are_gone() -> None:
    disk = small_log()
    for name in (CHECKPOINT_RECOVERY_POINT, CHECKPOINT_HIGH_WATERMARK):
        disk.remove(join(DIRECTORY, name))
    last = max(one for one in disk.list(PARTITION) if one.endswith(".log"))
    replace_file(disk, join(PARTITION, last), b"no batch" * 20)
    with pytest.raises(CorruptionError, match="offsets 22 to 23 cannot be read"):
        offsets(disk, 3, None)
    assert offsets(disk, 3, []) == list(range(3, int(last[:20])))


def test_a_file_in_place_of_an_empty_one_is_named_and_not_served(
    caplog: pytest.LogCaptureFixture,
) -> None:
    disk = compacted(is_clean=True)
    integrity = join(PARTITION, INTEGRITY)
    known = parse_integrity(integrity, read_file(disk, integrity))
    empty = known.segments[GONE]._replace(first_checksum=None, size=0)
    content = integrity_text(replace(known, segments={**known.segments, GONE: empty}))
    replace_file(disk, integrity, content)
    with pytest.raises(CorruptionError, match="it was empty: this is the file of another"):
        offsets(disk, FIRST, None)
    open_directory(disk, COMPACTED)
    assert "it was empty: this is the file of another" in caplog.text
