"""A log against a list: whatever is appended, read, cut, flushed, crashed and opened again."""

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ottla.base.errors import ApiError
from ottla.codec.compression import Compression
from ottla.record.builder import RecordBatchBuilder
from ottla.storage.directory.log_directory import LogDirectory
from ottla.storage.log.offsets import Isolation
from ottla.storage.log.partition_log import PartitionLog
from ottla.storage.retention.retention import begin_retention, facts_of, plan_retention
from ottla.testing import CrashMode, FakeFileSystem
from tests.support.logs import NOW_MS, SMALL, TOPIC_ID, open_directory, read_all

Entry = tuple[int, bytes, int]
"""Offset, value, timestamp."""


class LogMachine(RuleBasedStateMachine):
    """`entries` is the log as it must be; below `safe_end` no crash may undo anything."""

    @initialize()
    def begin(self) -> None:
        self.disk = FakeFileSystem()
        self.directory: LogDirectory = open_directory(self.disk)
        self.directory.create_log("t", 0, TOPIC_ID)
        self.entries: list[Entry] = []
        self.start = 0
        self.end = 0
        self.safe_end = 0
        self.sequence = 0
        self.counter = 0

    @property
    def log(self) -> PartitionLog:
        return self.directory.logs["t", 0]

    @rule(
        sizes=st.lists(st.integers(0, 60), min_size=1, max_size=4),
        compression=st.sampled_from(Compression),
        is_idempotent=st.booleans(),
    )
    def append(self, sizes: list[int], compression: Compression, is_idempotent: bool) -> None:
        numbers: dict[str, int] = {}
        if is_idempotent:
            numbers = {"producer_id": 7, "producer_epoch": 0, "base_sequence": self.sequence}
        builder = RecordBatchBuilder(compression=compression, **numbers)  # type: ignore[arg-type]
        for size in sizes:
            self.counter += 1
            value = b"%d" % self.counter + bytes(size)
            builder.append(b"k", value, NOW_MS + self.counter)
            self.entries.append((self.end, value, NOW_MS + self.counter))
            self.end += 1
        info = self.log.writer.append_as_leader(
            bytearray(builder.build()), leader_epoch=0, now_ms=NOW_MS
        )
        self.log.writer.write_out()
        assert info.last_offset == self.end - 1
        if is_idempotent:
            self.sequence += len(sizes)

    @rule()
    def repeat_a_sequence_number_out_of_order(self) -> None:
        builder = RecordBatchBuilder(
            producer_id=7, producer_epoch=0, base_sequence=self.sequence + 5
        )
        builder.append(b"k", b"never", NOW_MS)
        if 7 in self.log.producers.entries:
            with pytest.raises(ApiError):
                self.log.writer.append_as_leader(
                    bytearray(builder.build()), leader_epoch=0, now_ms=NOW_MS
                )

    @rule()
    def roll(self) -> None:
        self.log.writer.roll(NOW_MS)

    @rule()
    def flush(self) -> None:
        self.log.writer.flush()
        self.safe_end = self.end

    @rule(at=st.floats(0, 1))
    def read_from_anywhere(self, at: float) -> None:
        offset = self.start + round(at * (self.end - self.start))
        assert seen(self.log, offset) == [one for one in self.entries if one[0] >= offset]

    @precondition(lambda self: self.entries)
    @rule(at=st.floats(0, 1))
    def find_a_time(self, at: float) -> None:
        offset, _, timestamp_ms = self.entries[round(at * (len(self.entries) - 1))]
        found = self.log.reader.find_timestamp(timestamp_ms)
        assert found is not None
        assert (found.offset, found.timestamp_ms) == (offset, timestamp_ms)

    @rule(at=st.floats(0, 1))
    def cut_the_end(self, at: float) -> None:
        offset = self.start + round(at * (self.end - self.start))
        self.log.maintenance.truncate_to(offset, now_ms=NOW_MS)
        self.take_end(self.log.log_end_offset, at_most=offset)
        self.directory.checkpoints.write()

    def take_end(self, end: int, *, at_most: int) -> None:
        """A cut takes whole batches: it may end before the offset asked for, never after it."""
        assert end <= at_most
        self.entries = [one for one in self.entries if one[0] < end]
        self.end = end
        self.safe_end = min(self.safe_end, end)
        self.start = min(self.start, end)
        entry = self.log.producers.entries.get(7)
        self.sequence = 0 if entry is None else entry.last_sequence + 1

    @rule(at=st.floats(0, 1))
    def delete_from_the_front(self, at: float) -> None:
        self.start = self.log.maintenance.delete_records_before(
            self.start + round(at * (self.end - self.start))
        )
        self.entries = [one for one in self.entries if one[0] >= self.start]
        self.log.writer.flush()
        self.safe_end = self.end
        self.directory.checkpoints.write()
        self.log.maintenance.delete_segments_below_start()

    @rule(at=st.floats(0, 1.2), share=st.sampled_from([None, 0.0, 0.5, 0.9]), some=st.booleans())
    def retain(self, at: float, share: float | None, some: bool) -> None:
        """Retention by time, or by size, up to anywhere; a slice of it, or all."""
        limit = -1 if share is None else round(share * self.log.size)
        self.log.maintenance.reconfigure(
            replace(SMALL, retention_ms=10 if share is None else -1, retention_bytes=limit)
        )
        now_ms = NOW_MS + round(at * self.counter) + 10
        wanted = self.start_behind_retention(now_ms - 10, limit, max_count=2 if some else 1000)
        plan = plan_retention(facts_of(self.log), now_ms, 2 if some else 1000)
        if plan.going:
            begin_retention(self.log, plan, now_ms)
            self.directory.checkpoints.write_log_starts()
            for segment in self.log.maintenance.delete_segments_below_start(
                max_count=len(plan.going)
            ):
                if self.counter % 2:
                    segment.remove()
        self.log.maintenance.reconfigure(SMALL)
        self.start = wanted
        self.entries = [one for one in self.entries if one[0] >= self.start]
        self.safe_end = max(self.safe_end, self.start)

    def start_behind_retention(self, newest_ms: int, limit: int, max_count: int) -> int:
        """Where the log must start when every oldest segment has gone that may."""
        start, left = self.start, self.log.size
        bases = [one.base_offset for one in self.log.segments.values]
        for number, (base, end) in enumerate(pairwise([*bases, self.end])):
            inside = [time for offset, _, time in self.entries if base <= offset < end]
            left -= self.log.segments.values[number].size
            is_below = number + 1 < len(bases) and end <= self.start
            is_old = limit < 0 and bool(inside) and max(inside) < newest_ms
            is_much = 0 <= limit <= left and base < end
            if number == max_count or not (is_below or is_old or is_much):
                break
            start = max(start, end)
        return start

    @rule()
    def stop_and_start(self) -> None:
        self.directory.close()
        self.safe_end = self.end
        self.directory = open_directory(self.disk)

    @rule(mode=st.sampled_from(CrashMode), seed=st.integers(0, 1000))
    def crash(self, mode: CrashMode, seed: int) -> None:
        self.disk = self.disk.crash(mode, seed)
        self.directory = open_directory(self.disk)
        if ("t", 0) not in self.directory.logs:
            # Nothing of the partition was durable yet.
            assert self.safe_end == 0
            assert mode is not CrashMode.KEEP
            self.directory.create_log("t", 0, TOPIC_ID)
        # A power failure may take what says that the markers were looked through: a reader of
        # committed records gets no more than what has been, until that is done again.
        self.log.maintenance.check_aborts(at_once=True)
        end = self.log.log_end_offset
        assert end >= self.safe_end, "flushed records are gone"
        if mode is CrashMode.KEEP:
            assert end == self.end, "a killed process lost what it had written out"
        self.take_end(end, at_most=self.end)

    @invariant()
    def the_log_is_the_list(self) -> None:
        if not hasattr(self, "directory"):
            return
        offsets = self.log.offsets
        offsets.check()
        assert (self.log.log_start_offset, self.log.log_end_offset) == (self.start, self.end)
        assert seen(self.log, self.start) == self.entries


def seen(log: PartitionLog, offset: int) -> list[Entry]:
    records = read_all(log, offset, Isolation.LAST_STABLE)
    return [(one.offset, one.value or b"", one.timestamp_ms) for one in records]


LogMachine.TestCase.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
TestLogModel = pytest.mark.slow(LogMachine.TestCase)
