"""A pass of the cleaner that is cut off at every call, and every call of it that fails."""

import pytest

from ottla.base.files import FileSystem, join
from ottla.config.setting import INT32_MAX
from ottla.record.batch import iter_batches
from ottla.record.record import read_records
from ottla.storage.compaction import output
from ottla.storage.files.filenames import FileSuffix, parse_file_name
from ottla.storage.log.partition_log import PartitionLog
from ottla.testing import CrashMode, FakeFileSystem, every_crash_point
from tests.crash.checking import (
    PARTITION,
    check_no_segment_counts_as_cut,
    check_nothing_counts_as_lost,
)
from tests.crash.sampling import sample
from tests.support.compacting import (
    COMPACTED,
    End,
    Keeper,
    Roll,
    Step,
    Write,
    clean,
    keeper_of,
    visible,
)
from tests.support.logs import NOW_MS, open_log

LATER_MS = NOW_MS + 5000
"""After every tombstone's horizon."""

HISTORY: list[Step] = [
    Write(((b"a", b"1"), (b"b", b"1"), (b"c", b"1"))),
    Write(((b"a", b"2"), (b"d", b"1")), producer=0),
    Write(((b"e", b"1"),), producer=1),
    End(0, True),
    Roll(),
    End(1, False),
    Write(((b"a", b"3"), (b"b", None))),
    Write(((b"f", b"1"), (b"c", b"2")), producer=3),
    Roll(),
    Write(((b"a", None), (b"e", b"2"))),
    Write(((b"d", b"2"), (b"d", b"3")), producer=2),
    End(2, True),
    Roll(),
    Write(((b"g", b"1"),)),
]


def written() -> tuple[FakeFileSystem, Keeper]:
    """A log of several segments, all durable, with a second pass still to come."""
    disk = FakeFileSystem()
    keeper = keeper_of(disk)
    for step in HISTORY:
        keeper.carry_out(step)
    keeper.finish()
    clean(keeper.log, disk)
    keeper.carry_out(Write(((b"c", None), (b"h", b"1"))))
    keeper.carry_out(Write(((b"g", b"2"),)))
    keeper.log.writer.roll(NOW_MS)
    keeper.log.writer.flush()
    keeper.log.maintenance.close()
    return disk.crash(CrashMode.KEEP), keeper


def wanted(keeper: Keeper) -> dict[bytes, bytes]:
    return {key: value for key, (_, value) in keeper.latest.items() if value is not None}


def offsets(log: PartitionLog) -> list[int]:
    return [
        record.offset
        for segment in log.segments.values
        for batch in iter_batches(segment.log.read(0, segment.log.size))
        for record in read_records(batch)
    ]


@pytest.mark.slow
@pytest.mark.parametrize("max_size", [INT32_MAX, 150], ids=["one of a group", "several of a group"])
def test_a_pass_may_be_cut_off_anywhere(
    max_size: int, crash_seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk, keeper = written()
    monkeypatch.setattr(output, "INT32_MAX", max_size)
    expected = wanted(keeper)
    before = open_log(disk.crash(CrashMode.KEEP), COMPACTED)
    end, had = before.log_end_offset, set(offsets(before))

    def compact(file_system: FileSystem, _: list[object]) -> None:
        clean(open_log(file_system, COMPACTED), file_system, now_ms=LATER_MS)

    points = list(
        every_crash_point(compact, make_file_system=lambda: disk.crash(CrashMode.KEEP), seeds=2)
    )
    assert len(points) > 100
    for point in sample(iter(points), crash_seconds):
        left = point.file_system
        check_nothing_counts_as_lost(left, 0)
        log = open_log(left, COMPACTED)
        check_nothing_counts_as_lost(left, 0)
        check_no_segment_counts_as_cut(log)
        assert visible(log, keeper.aborted) == expected, point
        found = offsets(log)
        assert found == sorted(set(found)), point
        assert had.issuperset(found), point
        assert log.log_end_offset == end, point
        parsed = [parse_file_name(name) for name in left.list(PARTITION)]
        assert {one.suffix for one in parsed if one} == {FileSuffix.LIVE}, point
        # And the next pass ends where an uncut one does.
        clean(log, left, now_ms=LATER_MS)
        check_nothing_counts_as_lost(left, 0)
        assert visible(log, keeper.aborted) == expected, point


@pytest.mark.slow
def test_what_a_reader_of_the_whole_log_finds_is_the_same_before_and_after_any_crash() -> None:
    """Record by record: what stays has the offset, key and value that it had."""
    disk, _ = written()
    before = records(open_log(disk.crash(CrashMode.KEEP), COMPACTED))

    def compact(file_system: FileSystem, _: list[object]) -> None:
        clean(open_log(file_system, COMPACTED), file_system)

    for point in every_crash_point(
        compact, make_file_system=lambda: disk.crash(CrashMode.KEEP), seeds=1
    ):
        after = records(open_log(point.file_system, COMPACTED))
        assert after.items() <= before.items(), point


def records(log: PartitionLog) -> dict[int, tuple[bytes | None, bytes | None]]:
    return {
        record.offset: (record.key, record.value)
        for segment in log.segments.values
        for batch in iter_batches(segment.log.read(0, segment.log.size))
        for record in read_records(batch)
    }


def test_a_log_that_continues_after_a_crash_in_a_pass_is_compacted_again() -> None:
    disk, keeper = written()
    log = open_log(disk, COMPACTED)
    file = disk.open(join(PARTITION, "00000000000000000000.log.cleaned"), create=True)
    file.pwrite(b"left by a pass that failed", 0)
    file.close()
    clean(log, disk, now_ms=LATER_MS)
    assert visible(log, keeper.aborted) == wanted(keeper)
