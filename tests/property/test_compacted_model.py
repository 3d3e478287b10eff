"""Appends, passes, cuts from the front, stops and crashes: a reader of all ends with the model's
map."""

from collections.abc import Iterable
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.record.builder import RecordBatchBuilder
from ottla.storage.directory.log_directory import LogDirectory
from ottla.storage.log.partition_log import PartitionLog
from ottla.testing import CrashMode, FakeFileSystem
from tests.support.compacting import COMPACTED, KEYS, VALUES, clean
from tests.support.logs import NOW_MS, TOPIC_ID, open_directory, read_all

KEY = ("t", 0)
STAYS_MS = COMPACTED.delete_retention_ms

Pair = tuple[bytes, bytes | None]


@dataclass(frozen=True)
class Append:
    pairs: tuple[Pair, ...]


@dataclass(frozen=True)
class Clean:
    """A pass when so much time has gone by: tombstones go after `STAYS_MS`."""

    wait_ms: int


@dataclass(frozen=True)
class DeleteBefore:
    at: float


@dataclass(frozen=True)
class Crash:
    mode: CrashMode
    seed: int


@dataclass(frozen=True)
class Do:
    what: str


Step = Append | Clean | DeleteBefore | Crash | Do
STEPS = st.lists(
    st.one_of(
        st.builds(Append, st.lists(st.tuples(KEYS, VALUES), min_size=1, max_size=4).map(tuple)),
        st.builds(Clean, st.sampled_from([0, STAYS_MS // 2, 2 * STAYS_MS])),
        st.builds(DeleteBefore, st.floats(0, 1)),
        st.builds(Crash, st.sampled_from(CrashMode), st.integers(0, 100)),
        st.builds(Do, st.sampled_from(["flush", "roll", "read", "stop"])),
    ),
    max_size=40,
)


def told(pairs: Iterable[Pair], before: dict[bytes, bytes] | None = None) -> dict[bytes, bytes]:
    """What a reader ends with."""
    known = dict(before or {})
    for key, value in pairs:
        if value is None:
            known.pop(key, None)
        else:
            known[key] = value
    return known


class Model:
    """`history` is what was appended and not lost, by offset; before `safe_end` nothing may be."""

    def __init__(self) -> None:
        self.disk = FakeFileSystem()
        self.directory: LogDirectory = open_directory(self.disk, COMPACTED)
        self.directory.create_log(*KEY, TOPIC_ID)
        self.now_ms = NOW_MS
        self.history: dict[int, Pair] = {}
        self.start = self.safe_end = 0
        self.position, self.read_ms = 0, NOW_MS
        self.known: dict[bytes, bytes] = {}

    @property
    def log(self) -> PartitionLog:
        return self.directory.logs[KEY]

    def carry_out(self, step: Step) -> None:
        match step:
            case Append(pairs):
                self.append(pairs)
            case Clean(wait_ms):
                self.now_ms += wait_ms
                self.clean()
            case DeleteBefore(at):
                self.delete_before(round(at * self.log.log_end_offset))
            case Crash(mode, seed):
                self.disk = self.disk.crash(mode, seed)
                self.reopen()
            case Do("flush"):
                self.log.writer.flush()
                self.safe_end = self.log.log_end_offset
            case Do("roll"):
                self.log.writer.roll(self.now_ms)
            case Do("read"):
                self.read_on()
            case Do("stop"):
                self.directory.close()
                self.safe_end = self.log.log_end_offset
                self.reopen()

    def append(self, pairs: tuple[Pair, ...]) -> None:
        builder = RecordBatchBuilder()
        for key, value in pairs:
            self.history[self.log.log_end_offset + builder.record_count] = (key, value)
            builder.append(key, value, self.now_ms)
        self.log.writer.append_as_leader(
            bytearray(builder.build()), leader_epoch=0, now_ms=self.now_ms
        )
        self.log.writer.write_out()

    def clean(self) -> None:
        cleaned = self.directory.checkpoints.cleaned.get(KEY)
        result = clean(self.log, self.disk, now_ms=self.now_ms, cleaned_until=cleaned)
        if result is not None:
            self.directory.checkpoints.move_cleaned(KEY, result.end_offset)

    def delete_before(self, offset: int) -> None:
        if offset <= self.log.log_start_offset:
            return
        self.start = self.log.maintenance.delete_records_before(offset)
        self.directory.checkpoints.write_log_starts()
        for retired in self.log.maintenance.delete_segments_below_start():
            retired.remove()

    def reopen(self) -> None:
        self.directory = open_directory(self.disk, COMPACTED)
        end = self.log.log_end_offset
        assert end >= self.safe_end, "flushed records are gone"
        self.history = {at: pair for at, pair in self.history.items() if at < end}
        if self.position > end:
            self.position, self.known = 0, {}

    def read_on(self) -> None:
        """A reader that was here before a tombstone's time was over has seen it."""
        if self.now_ms - self.read_ms >= STAYS_MS or self.position < self.log.log_start_offset:
            self.position, self.known = self.log.log_start_offset, {}
        fresh = read_all(self.log, self.position) if self.position < self.log.log_end_offset else []
        self.known = told(((one.key or b"", one.value) for one in fresh), self.known)
        self.position, self.read_ms = self.log.log_end_offset, self.now_ms
        for key, value in self.truth().items():
            assert self.known[key] == value
        last = {key: at for at, (key, _) in sorted(self.history.items())}
        for key in self.known.keys() - self.truth().keys():
            assert last[key] < self.log.log_start_offset, "a delete was not seen"

    def truth(self) -> dict[bytes, bytes]:
        start = self.log.log_start_offset
        return told(pair for at, pair in sorted(self.history.items()) if at >= start)

    def check(self) -> None:
        found = [(one.key or b"", one.value) for one in read_all(self.log)]
        assert told(found) == self.truth()


@pytest.mark.slow
@given(STEPS)
def test_a_reader_of_all_ends_with_the_models_map(steps: list[Step]) -> None:
    model = Model()
    for step in steps:
        model.carry_out(step)
        model.check()
    model.read_on()
