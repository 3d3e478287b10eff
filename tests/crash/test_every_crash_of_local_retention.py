"""A log whose head is in a tier, cut off at every call of local retention and of its recovery.

The tier itself is not here: a workload notes up to where it has copied the log. What is not in the
tier must be on the disk, in one piece, and the log's start must not go back.
"""

from collections.abc import Callable
from dataclasses import replace

import pytest

from ottla.base.files import FileSystem
from ottla.config.topic import TopicConfig
from ottla.record.batch import RecordBatch
from ottla.storage.log.offsets import Isolation, OffsetInTierError
from ottla.storage.log.partition_log import PartitionLog
from ottla.storage.reading.lost_offsets import lost_front
from ottla.storage.retention.retention import begin_retention, facts_of, plan_retention
from ottla.testing import CrashMode, CrashPoint, FakeFileSystem, every_crash_point
from tests.crash.checking import (
    PARTITION,
    check_goes_on,
    check_no_segment_counts_as_cut,
    check_nothing_counts_as_lost,
    reopened,
    stored_batches,
)
from tests.crash.expected import Expected
from tests.crash.history import Act, Event, Promise, promise_of
from tests.crash.sampling import sample
from tests.crash.test_crash_while_recovering import durable_copy
from tests.crash.test_every_crash_point import kafkas_files
from tests.crash.workload import TINY, Writer
from tests.support.logs import NOW_MS

TIERED = replace(TINY, remote_storage_enable=True, retention_ms=-1, local_retention_bytes=0)


class TieredWriter(Writer):
    """A writer whose log is copied to a tier, and loses its first segments to it."""

    def __init__(
        self, file_system: FileSystem, events: list[Event], *, config: TopicConfig = TIERED
    ) -> None:
        super().__init__(file_system, events, config=config)
        self.copied_until = 0

    def copy(self, segments: int) -> None:
        """Copies the next rolled segments, which a broker has flushed first."""
        rolled = [one for one in self.log.segments.values if one.base_offset >= self.copied_until]
        assert len(rolled) > segments, "the active segment is not copied"
        self.flush()
        self.copied_until = rolled[segments].base_offset
        self.events.append(Event(Act.COPIED, self.copied_until))
        self.log.offsets.highest_remote_offset = self.copied_until - 1

    def retain_locally(self, max_count: int = 100, *, in_slices: bool = False) -> None:
        plan = plan_retention(facts_of(self.log), NOW_MS, max_count)
        assert plan.going, "a workload that retains nothing proves nothing"
        begin_retention(self.log, plan, NOW_MS)
        # As the broker's job: the log start is durable before a file goes.
        self.directory.checkpoints.write_log_starts()
        retired = []
        count = 1 if in_slices else len(plan.going)
        while taken := self.log.maintenance.delete_segments_below_start(
            max_count=count, durably=not in_slices
        ):
            retired += taken
        assert len(retired) >= len(plan.going)
        for segment in retired[::2]:
            with self.log.health.guarding(changes_files=True):
                segment.remove()


def fill(writer: TieredWriter, epochs: int) -> None:
    for _ in range(epochs):
        writer.append(2, producer=1)
        writer.append(1, producer=2, transaction=True)
        writer.append(2)
        writer.end_transaction(2, commit=writer.epoch % 2 == 1)
        writer.epoch += 1


def leave_to_the_tier(writer: TieredWriter) -> None:
    """Segments go to the tier, some in slices, and all; stops and appends come in between."""
    writer.open()
    fill(writer, 3)
    writer.copy(2)
    writer.retain_locally(1)
    writer.append(2, producer=1)
    writer.retain_locally()
    writer.copy(2)
    writer.append(1)
    writer.retain_locally(in_slices=True)
    writer.close()
    writer.open()
    fill(writer, 1)
    writer.log.offsets.highest_remote_offset = writer.copied_until - 1
    writer.roll()
    writer.copy(len(writer.log.segments) - 1)
    writer.retain_locally()
    writer.append(2, producer=1)


def delete_in_the_tier(writer: TieredWriter) -> None:
    """The log's start moves up within the tier, and then beyond it."""
    writer.open()
    fill(writer, 4)
    writer.copy(3)
    writer.retain_locally()
    writer.delete_before(4)
    writer.append(2, producer=1)
    writer.flush()
    writer.delete_before(writer.log.local_start_offset + 3)
    writer.append(1)


def cut_the_end(writer: TieredWriter) -> None:
    """A follower whose local segments are cut, but not what is in the tier."""
    writer.open()
    fill(writer, 3)
    writer.copy(2)
    writer.retain_locally()
    writer.append(2, producer=1)
    writer.flush()
    writer.truncate(writer.log.local_start_offset + 3)
    writer.epoch += 1
    writer.append(2)
    writer.append(2, producer=3)
    writer.flush()


WORKLOADS: list[Callable[[TieredWriter], None]] = [
    leave_to_the_tier,
    delete_in_the_tier,
    cut_the_end,
]


def check(point: CrashPoint) -> None:
    events: list[Event] = point.acknowledged
    promise = promise_of(events)
    copied = max((one.offset for one in events if one.act is Act.COPIED), default=0)
    log = reopened(point.file_system, TIERED, may_be_new=not promise.is_created)
    is_kill = point.mode is CrashMode.KEEP
    expected = check_promise(
        log, promise, copied, promise.written_end if is_kill else promise.flushed_end
    )
    check_answers(log, expected)
    check_producers(log, expected)
    assert log.epochs.entries == expected.epochs(log.log_start_offset, log.log_end_offset)
    check_no_segment_counts_as_cut(log)
    first, start = log.segments.first.base_offset, log.log_start_offset
    check_nothing_counts_as_lost(point.file_system, first)
    front = lost_front(
        point.file_system, PARTITION, first, start, is_same_boot=is_kill, is_tiered=True
    )
    assert front is None
    check_again(log, point)


def check_promise(log: PartitionLog, promise: Promise, copied: int, required_end: int) -> Expected:
    """Asserts that tier and disk together have a prefix of what was written, without a hole."""
    start, local_start, end = log.log_start_offset, log.local_start_offset, log.log_end_offset
    log.offsets.check()
    assert promise.kept_start <= start <= max(promise.wanted_start, promise.kept_start)
    assert local_start <= max(copied, start), "a segment went that is not in the tier"
    assert end >= required_end
    stored = stored_batches(log)
    below = [one for one in stored if RecordBatch(one).last_offset < local_start]
    wanted = [one for one in promise.below(end) if RecordBatch(one).last_offset >= local_start]
    assert stored[len(below) :] == wanted, "the log is no piece of what was written"
    assert end == (RecordBatch(wanted[-1]).last_offset + 1 if wanted else local_start)
    return Expected(promise.below(end))


def check_answers(log: PartitionLog, expected: Expected) -> None:
    for offset in range(log.log_start_offset, log.local_start_offset):
        with pytest.raises(OffsetInTierError):
            log.reader.read(offset, 1, Isolation.HIGH_WATERMARK)
    for offset in range(log.local_start_offset, log.log_end_offset):
        data = log.reader.read(offset, 1, Isolation.HIGH_WATERMARK)
        assert data.records is not None
        batch = RecordBatch(data.records.read())
        assert batch.base_offset <= offset <= batch.last_offset
    unstable = expected.first_unstable_offset
    assert log.last_stable_offset == (log.log_end_offset if unstable is None else unstable)


def check_producers(log: PartitionLog, expected: Expected) -> None:
    """The snapshot at the local start knows the producers of what is in the tier."""
    assert set(log.producers.entries) <= set(expected.producers)
    for producer_id, producer in expected.producers.items():
        entry = log.producers.entries.get(producer_id)
        if producer.last_offset < log.log_start_offset and entry is None:
            continue
        assert entry is not None
        assert (entry.epoch, entry.last_sequence) == (producer.epoch, producer.last_sequence)
        assert entry.transaction_first_offset == producer.transaction_first_offset
    found = [one for segment in log.segments.values for one in segment.transaction_index.entries]
    start = log.local_start_offset
    assert [one for one in found if one.last_offset >= start] == [
        one for one in expected.aborted if one.last_offset >= start
    ]


def check_again(log: PartitionLog, point: CrashPoint) -> None:
    """A second start changes nothing, and what is flushed then outlives a power failure."""
    starts = log.log_start_offset, log.local_start_offset
    disk = point.file_system.crash(CrashMode.KEEP)
    files = kafkas_files(disk)
    again = reopened(disk, TIERED)
    assert (again.log_start_offset, again.local_start_offset) == starts
    assert kafkas_files(disk.crash(CrashMode.KEEP)) == files
    disk = point.file_system.crash(CrashMode.RANDOM, point.seed)
    durable = check_goes_on(disk, TIERED)
    assert stored_batches(reopened(disk.crash(CrashMode.STRICT), TIERED)) == durable


def check_all(point: CrashPoint) -> None:
    try:
        check(point)
    except Exception as error:
        error.add_note(f"at {point}")
        raise


@pytest.mark.slow
@pytest.mark.parametrize("steps", WORKLOADS, ids=lambda one: one.__name__)
def test_nothing_goes_that_is_not_in_the_tier(
    steps: Callable[[TieredWriter], None], crash_seconds: float
) -> None:
    def workload(file_system: FileSystem, events: list[Event]) -> None:
        steps(TieredWriter(file_system, events))

    for point in sample(every_crash_point(workload, seeds=1, share=1 / 4), crash_seconds):
        check_all(point)


def half_in_the_tier(events: list[Event]) -> FakeFileSystem:
    """A log with a log start below its first segment, and an end that was not flushed."""
    disk = FakeFileSystem()
    writer = TieredWriter(disk, events)
    writer.open()
    fill(writer, 3)
    writer.copy(2)
    writer.retain_locally()
    writer.delete_before(3)
    fill(writer, 1)
    return disk


@pytest.mark.slow
def test_a_recovery_of_a_log_that_begins_in_the_tier_can_be_cut_off_anywhere(
    crash_seconds: float,
) -> None:
    history: list[Event] = []
    left = durable_copy(half_in_the_tier(history))

    def recover(file_system: FileSystem, events: list[Event]) -> None:
        events += history
        TieredWriter(file_system, events).open()

    points = every_crash_point(
        recover, make_file_system=lambda: left.crash(CrashMode.KEEP), seeds=2
    )
    for point in sample(points, crash_seconds):
        check_all(point)
