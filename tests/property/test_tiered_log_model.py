"""A log and its tier against a list: whatever is appended, copied, left to the tier, cut, deleted
and crashed, each record is in one of the two, and is what was appended.
"""

from dataclasses import replace

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from ottla.record.builder import RecordBatchBuilder
from ottla.storage.directory.log_directory import LogDirectory
from ottla.storage.log.offsets import Isolation, OffsetInTierError
from ottla.storage.log.partition_log import PartitionLog
from ottla.storage.retention.retention import begin_retention, facts_of, plan_retention
from ottla.testing import CrashMode, FakeFileSystem
from tests.support.logs import NOW_MS, SMALL, TOPIC_ID, open_directory, read_all

TIERED = replace(SMALL, remote_storage_enable=True, retention_ms=-1, local_retention_bytes=0)

Entry = tuple[int, bytes]
"""Offset, value."""


class TieredLogMachine(RuleBasedStateMachine):
    """`entries` is the log as it must be, wherever it lies; the tier has it up to `copied`, and
    below `safe_end` no crash may undo anything.
    """

    @initialize()
    def begin(self) -> None:
        self.disk = FakeFileSystem()
        self.directory: LogDirectory = open_directory(self.disk, TIERED)
        self.directory.create_log("t", 0, TOPIC_ID)
        self.directory.checkpoints.write()
        self.entries: list[Entry] = []
        self.start = self.end = self.safe_end = self.copied = 0
        self.epoch = 0
        self.counter = 0

    @property
    def log(self) -> PartitionLog:
        return self.directory.logs["t", 0]

    @rule(sizes=st.lists(st.integers(0, 60), min_size=1, max_size=4), is_new_leader=st.booleans())
    def append(self, sizes: list[int], is_new_leader: bool) -> None:
        self.epoch += is_new_leader
        builder = RecordBatchBuilder()
        for size in sizes:
            self.counter += 1
            value = b"%d" % self.counter + bytes(size)
            builder.append(b"k", value, NOW_MS)
            self.entries.append((self.end, value))
            self.end += 1
        info = self.log.writer.append_as_leader(
            bytearray(builder.build()), leader_epoch=self.epoch, now_ms=NOW_MS
        )
        self.log.writer.write_out()
        assert info.last_offset == self.end - 1

    @rule(count=st.integers(1, 4))
    def copy(self, count: int) -> None:
        """Rolled segments go to the tier, which a broker has flushed first."""
        self.log.writer.flush()
        self.safe_end = self.end
        bases = [one.base_offset for one in self.log.segments.values if one.base_offset]
        self.copied = max(self.copied, *[one for one in bases if one > self.copied][:count], 0)
        self.tell_the_log()

    def tell_the_log(self) -> None:
        self.log.offsets.highest_remote_offset = self.copied - 1

    @rule(max_count=st.integers(1, 4), durably=st.booleans())
    def leave_to_the_tier(self, max_count: int, durably: bool) -> None:
        plan = plan_retention(facts_of(self.log), NOW_MS, max_count)
        if plan.going or plan.needs_roll:
            begin_retention(self.log, plan, NOW_MS)
            self.directory.checkpoints.write_log_starts()
            self.log.maintenance.delete_segments_below_start(durably=durably)

    @rule(at=st.floats(0, 1))
    def cut_the_end(self, at: float) -> None:
        offset = self.start + round(at * (self.end - self.start))
        self.log.maintenance.truncate_to(offset, now_ms=NOW_MS)
        self.take_end(self.log.log_end_offset, at_most=offset)

    def take_end(self, end: int, *, at_most: int) -> None:
        assert end <= at_most
        self.entries = [one for one in self.entries if one[0] < end]
        self.end = end
        self.safe_end = min(self.safe_end, end)
        self.start = min(self.start, end)
        self.copied = min(self.copied, end)  # what is later there is of another history
        self.epoch += 1

    @rule(at=st.floats(0, 1))
    def delete_from_the_front(self, at: float) -> None:
        wanted = self.start + round(at * (self.end - self.start))
        self.start = self.log.maintenance.delete_records_before(wanted)
        self.entries = [one for one in self.entries if one[0] >= self.start]
        self.directory.checkpoints.write()
        self.safe_end = max(self.safe_end, self.start)

    @rule()
    def stop_and_start(self) -> None:
        self.directory.close()
        self.safe_end = self.end
        self.directory = open_directory(self.disk, TIERED)
        self.tell_the_log()

    @rule(mode=st.sampled_from(CrashMode), seed=st.integers(0, 1000))
    def crash(self, mode: CrashMode, seed: int) -> None:
        self.disk = self.disk.crash(mode, seed)
        self.directory = open_directory(self.disk, TIERED)
        self.log.maintenance.check_aborts(at_once=True)
        end = self.log.log_end_offset
        assert end >= self.safe_end, "flushed records are gone"
        assert mode is not CrashMode.KEEP or end == self.end
        self.take_end(end, at_most=self.end)
        self.tell_the_log()

    @invariant()
    def each_record_is_here_or_in_the_tier(self) -> None:
        if not hasattr(self, "directory"):
            return
        log = self.log
        log.offsets.check()
        assert (log.log_start_offset, log.log_end_offset) == (self.start, self.end)
        local_start = log.local_start_offset
        assert local_start <= max(self.copied, self.start), "a record is in neither"
        records = read_all(log, local_start, Isolation.LAST_STABLE)
        local = [(one.offset, one.value or b"") for one in records]
        assert local == [one for one in self.entries if one[0] >= local_start]
        if self.start < local_start:
            with pytest.raises(OffsetInTierError):
                log.reader.read(self.start, 1, Isolation.LAST_STABLE)
            assert log.epochs.epoch_for_offset(self.start) is not None


TieredLogMachine.TestCase.settings = settings(
    max_examples=60, stateful_step_count=30, deadline=None
)
TestTieredLogModel = pytest.mark.slow(TieredLogMachine.TestCase)
