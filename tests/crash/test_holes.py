"""A compacted log that flushes in the background, and loses what was not flushed yet.

A power failure may take the tail of a segment at a batch's end, or a whole file, and keep what was
written after it. What recovery leaves is always what some beginning of all that was written comes
to, once it is compacted: nothing is kept after a hole, and no gap of compaction's taken for one.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest

from ottla.base.files import FileSystem, join, parent_directory
from ottla.record.batch import iter_batches
from ottla.record.builder import RecordBatchBuilder
from ottla.record.record import read_records
from ottla.storage.compaction.cleanable import cleanable, log_to_clean
from ottla.storage.compaction.compaction import Surroundings, compact
from ottla.storage.compaction.key_filter import PlainKeyFilter
from ottla.storage.compaction.planning import plan_compaction
from ottla.storage.compaction.replacement import replace_segments
from ottla.storage.files.filenames import BOOT_NOTE, INTEGRITY
from ottla.storage.log.maintenance import FlushPlan
from ottla.storage.log.partition_log import PartitionLog
from ottla.testing import CrashMode, FakeFileSystem, every_crash_point
from tests.crash.checking import PARTITION, all_files
from tests.crash.test_bit_flips import disk_of
from tests.support.compacting import COMPACTED, MEMORY
from tests.support.logs import DIRECTORY, NOW_MS, open_log


@dataclass(frozen=True)
class Written:
    """All batches that were appended, as (base offset, key, value), and how much must be there."""

    records: tuple[tuple[int, bytes, bytes], ...] = ()
    written_end: int = 0
    flushed_end: int = 0

    def latest(self, end: int) -> dict[bytes, bytes]:
        return {key: value for offset, key, value in self.records if offset < end}


class Work:
    """Appends to one compacted log, and has it flushed and compacted as a broker would."""

    def __init__(self, file_system: FileSystem, events: list[Written]) -> None:
        self._file_system = file_system
        self._events = events
        self._note(Written())
        self.log = open_log(file_system, COMPACTED)

    def _note(self, written: Written) -> None:
        self._written = written
        self._events.append(written)

    def append(self, count: int) -> None:
        for _ in range(count):
            offset = self.log.log_end_offset
            key, value = b"key%d" % (offset % 3), b"%d" % offset * 20
            builder = RecordBatchBuilder()
            builder.append(key, value, NOW_MS)
            records = (*self._written.records, (offset, key, value))
            self._note(replace(self._written, records=records))
            self.log.writer.append_as_leader(
                bytearray(builder.build()), leader_epoch=0, now_ms=NOW_MS
            )
            self.log.writer.write_out()
            self._note(replace(self._written, written_end=offset + 1))

    def plan_flush(self) -> FlushPlan:
        plan = self.log.maintenance.due_flush(NOW_MS)
        assert plan is not None
        return plan

    def flush(self, plan: FlushPlan) -> None:
        plan.carry_out(self._file_system)
        plan.owner.finish_flush(plan, NOW_MS)
        self._note(replace(self._written, flushed_end=plan.until_offset))

    def compact(self) -> None:
        """A pass over what is flushed; older segments are compacted again."""
        log = self.log
        range_ = cleanable(log_to_clean(log, None), log.config, NOW_MS)
        assert 0 < range_.end_offset <= log.offsets.recovery_point
        plan = plan_compaction(log, range_, self._file_system, MEMORY, now_ms=NOW_MS)
        key_filter = PlainKeyFilter(plan.map_bytes, plan.load_factor)
        result = compact(plan, key_filter, Surroundings(file_system=self._file_system))
        for retired in replace_segments(log, result.groups, self._file_system, NOW_MS):
            retired.remove()


def background_flush(file_system: FileSystem, events: list[Written]) -> Work:
    """Flushes that are under way while the log rolls on, and passes of the cleaner in between."""
    work = Work(file_system, events)
    work.append(7)
    plan = work.plan_flush()
    work.append(3)
    work.flush(plan)
    work.compact()
    work.append(4)
    plan = work.plan_flush()
    work.append(3)
    work.flush(plan)
    work.append(3)
    work.compact()
    work.append(7)
    return work


def check(log: PartitionLog, written: Written, required_end: int) -> None:
    end = log.log_end_offset
    assert required_end <= end <= len(written.records)
    content = b"".join(one.log.read(0, one.log.size) for one in log.segments.values)
    found = [one for stored in iter_batches(content) for one in read_records(stored)]
    offsets = [one.offset for one in found]
    assert offsets == sorted(set(offsets))
    assert {(one.offset, one.key, one.value) for one in found} <= set(written.records[:end])
    assert {one.key: one.value for one in found} == written.latest(end)
    # The last record written of all is some key's last.
    assert offsets[-1:] == [end - 1][:end]


def check_all(*, seeds: int, first_seed: int = 0) -> int:
    points = 0
    for point in every_crash_point(background_flush, seeds=seeds, first_seed=first_seed):
        points += 1
        if not point.acknowledged:
            continue
        written = point.acknowledged[-1]
        is_kill = point.mode is CrashMode.KEEP
        disk = point.file_system
        for _ in range(2):
            log = open_log(disk, COMPACTED)
            check(log, written, written.written_end if is_kill else written.flushed_end)
            disk = disk.crash(CrashMode.KEEP)
    return points


@pytest.mark.slow
def test_a_power_failure_leaves_a_beginning_of_what_was_written(crash_seconds: float) -> None:
    assert check_all(seeds=1) > 300
    until = time.monotonic() + crash_seconds
    while time.monotonic() < until:
        check_all(seeds=4, first_seed=time.time_ns())


def worked() -> tuple[dict[str, bytes], Written, int]:
    """What was on the disk, what was written, and where the recovery point was.

    Without the note of the system's start: a power failure is what took what is lost.
    """
    disk, events = FakeFileSystem(), list[Written]()
    log = background_flush(disk, events).log
    assert len(log.segments.from_offset(log.offsets.recovery_point)) > 4
    files = all_files(disk.crash(CrashMode.KEEP))
    del files[join(DIRECTORY, BOOT_NOTE)]
    return files, events[-1], log.offsets.recovery_point


def lost_tails(files: dict[str, bytes], recovery_point: int) -> Iterator[dict[str, bytes]]:
    """Every unflushed log cut at each of its batches' ends, and gone."""
    for path, content in files.items():
        if not path.endswith(".log") or int(path[-24:-4]) < recovery_point:
            continue
        ends = [one.position for one in iter_batches(content)]
        for end in ends:
            yield {**files, path: content[:end]}
        yield {one: what for one, what in files.items() if one != path}


def test_nothing_is_kept_after_a_tail_that_is_lost_at_a_batchs_end() -> None:
    files, written, recovery_point = worked()
    count = 0
    for left in lost_tails(files, recovery_point):
        count += 1
        log = open_log(disk_of(left), COMPACTED)
        check(log, written, recovery_point)
    assert count > 15


def keep_all_but_the_partition(disk: FakeFileSystem) -> None:
    for path in all_files(disk):
        if parent_directory(path) != PARTITION:
            file = disk.open(path)
            file.sync()
            file.close()
    disk.sync_directory("/")
    disk.sync_directory(DIRECTORY)


@pytest.mark.slow
def test_after_kafka_has_loaded_the_log_all_is_kept_that_kafka_would_keep() -> None:
    """It has removed the file that says where gaps may be, and may have left gaps of its own."""
    files, _, recovery_point = worked()
    del files[join(PARTITION, INTEGRITY)]
    for left in lost_tails(files, recovery_point):
        disk = disk_of(left)
        logs = {path: one for path, one in left.items() if path.endswith(".log")}
        keep_all_but_the_partition(disk)
        log = open_log(disk, COMPACTED)
        assert {one: all_files(disk)[one] for one in logs} == logs
        # What it was not known of, no later power failure can make a hole in.
        assert log.offsets.recovery_point == log.log_end_offset
        after = open_log(disk.crash(CrashMode.STRICT), COMPACTED)
        assert after.log_end_offset == log.log_end_offset


def test_gaps_that_compaction_left_are_kept_with_every_checkpoint_lost() -> None:
    files, written, _ = worked()
    for name in ("recovery-point-offset-checkpoint", "cleaner-offset-checkpoint"):
        files.pop(join(DIRECTORY, name), None)
    log = open_log(disk_of(files), COMPACTED)
    check(log, written, written.written_end)
