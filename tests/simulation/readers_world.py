"""Readers of a log that is appended to, rolled, cut by retention and compacted between their steps.

What one was handed is a prefix of the log as it was: in the order of the offsets, each record as it
was appended, and none left out that was not deleted, or compacted away, by then. A reader of the
files (`read_only`) meets changes between its own calls of the file system too.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import strategies as st

from ottla.base.clock import SystemClock
from ottla.base.files import OsFileSystem
from ottla.embedded import followed, live_reading
from ottla.embedded.environment import Environment
from ottla.embedded.followed import FollowedLog
from ottla.embedded.log import open_in
from ottla.embedded.memory import make_directory
from ottla.embedded.readable import ReadableLog
from ottla.testing.clock import FakeClock
from ottla.testing.recording import RecordingFileSystem

READ_SIZES = (150, 2000)
"""Bytes: one batch at a time or two, so that there are many places to be overtaken, or some whole
segments."""

CONFIG = {
    "cleanup.policy": "compact,delete",
    "segment.bytes": 500,
    "segment.ms": 600_000,
    "retention.ms": 3 * 3_600_000,
    "index.interval.bytes": 1,
    "min.cleanable.dirty.ratio": 0.01,
}


@dataclass(frozen=True)
class Append:
    keys: tuple[bytes, ...]


@dataclass(frozen=True)
class Wait:
    minutes: int


@dataclass(frozen=True)
class DeleteBefore:
    at: float


@dataclass(frozen=True)
class Compact:
    pass


Change = Append | Wait | DeleteBefore | Compact


@dataclass(frozen=True)
class Begin:
    kind: str
    is_live: bool
    at: float


@dataclass(frozen=True)
class Take:
    """So many records of a reader; `during` it a change comes before every `interval`-th call."""

    reader: int
    count: int
    interval: int
    during: tuple[Change, ...]


KINDS = ("read", "scan", "columns", "tail")
KEYS = st.sampled_from([b"%d" % number for number in range(12)])
APPENDS = st.builds(Append, st.lists(KEYS, min_size=2, max_size=6).map(tuple))
CHANGES = st.one_of(
    APPENDS,
    st.builds(Wait, st.sampled_from([2, 11, 100])),
    st.builds(DeleteBefore, st.sampled_from([0.1, 0.3, 0.5])),
    st.just(Compact()),
)
BEGINS = st.builds(
    Begin, st.sampled_from(KINDS), st.booleans(), st.sampled_from([0.0, 0.0, 0.3, 0.8])
)
TAKES = st.builds(
    Take,
    st.integers(0, 7),
    st.integers(1, 8),
    st.integers(1, 6),
    st.lists(CHANGES, max_size=4).map(tuple),
)
STEPS = st.builds(
    lambda *parts: [step for part in parts for step in part],
    st.lists(APPENDS, min_size=4, max_size=10),
    st.lists(BEGINS, min_size=2, max_size=4),
    st.lists(st.one_of(CHANGES, TAKES, TAKES, BEGINS), min_size=10, max_size=30),
)


class DisturbedFiles(RecordingFileSystem):
    """Calls `disturb` before each of a reader's calls."""

    def __init__(self) -> None:
        super().__init__(OsFileSystem())
        self.disturb: Callable[[], None] = lambda: None

    def check_alive(self) -> None:
        self.disturb()


@dataclass
class Reader:
    """`position` is the offset before which all was handed out that had to be."""

    kind: str
    log: ReadableLog
    position: int
    due: int
    """The log's end when it began: up to there it has to come."""
    source: Any = None
    records: Iterator[tuple[int, bytes, bytes]] | None = None


class ReadersWorld:
    """`run` carries out steps, and asserts after each record that it is the right one."""

    def __init__(self) -> None:
        self.history: list[tuple[bytes, bytes]] = []
        self.last: dict[bytes, int] = {}
        self.readers: list[Reader] = []
        self.counts: Counter[str] = Counter()

    def run(self, steps: list[Any]) -> None:
        with ExitStack() as stack:
            patch = stack.enter_context(pytest.MonkeyPatch.context())
            size = READ_SIZES[len(steps) % 2]
            patch.setattr(live_reading, "READ_SIZE", size)
            patch.setattr(followed, "READ_SIZE", size)
            path, leave = make_directory()
            stack.callback(leave)
            # Files have the times of the machine, which count where compaction left no records.
            self.clock = FakeClock(SystemClock().now_ms())
            self.log = stack.enter_context(open_in(Environment(clock=self.clock), path))
            self.log.create_topic("t", config=CONFIG)
            self.files = DisturbedFiles()
            self.followed = FollowedLog([path], self.files)
            self.change(Append((b"a", b"b", b"a")))
            for step in steps:
                if isinstance(step, Begin):
                    self.begin(step)
                elif isinstance(step, Take):
                    if self.readers:
                        self.take(self.readers[step.reader % len(self.readers)], step)
                else:
                    self.change(step)
            for reader in self.readers:
                self.finish(reader)

    def change(self, change: Change) -> None:
        self.counts[type(change).__name__] += 1
        end = len(self.history)
        match change:
            case Append(keys):
                pairs = [(key, b"%d" % (end + index)) for index, key in enumerate(keys)]
                self.log.append_many("t", pairs)
                self.history += pairs
                self.last |= {key: end + index for index, (key, _) in enumerate(pairs)}
            case Wait(minutes):
                self.clock.advance(60_000 * minutes)
                self.log.run_due_jobs()
            case DeleteBefore(at):
                start = self.start
                self.log.delete_records("t", {0: start + round(at * (end - start))})
            case Compact():
                self.log.compact("t")

    @property
    def start(self) -> int:
        return self.log.offsets("t")[0][0]

    def begin(self, step: Begin) -> None:
        log = self.log if step.is_live else self.followed
        end = len(self.history)
        begin = round(step.at * end)
        reader = Reader(step.kind, log, begin, end)
        if step.kind == "tail":
            reader.source = log.tail("t", from_offset={0: begin}, timeout_s=0)
        elif step.kind != "read":
            reader.source = log.scan("t", from_offset=begin)
            assert reader.source.spans == {0: (begin, end)}
        self.readers.append(reader)

    def take(self, reader: Reader, step: Take) -> None:
        changes, calls = list(step.during), 0

        def disturb() -> None:
            nonlocal calls
            calls += 1
            if changes and calls % step.interval == 0:
                self.change(changes.pop(0))
                self.counts["changes within a step"] += 1

        self.files.disturb = disturb
        try:
            for _ in range(step.count):
                if not self.take_one(reader):
                    return
        finally:
            self.files.disturb = lambda: None

    def finish(self, reader: Reader) -> None:
        while self.take_one(reader):
            pass

    def take_one(self, reader: Reader) -> bool:
        """Whether there was a record to take; what is left out has to be gone by then."""
        if reader.records is None:
            # Begun again, as a tail is, it comes to the end that the log has now.
            if reader.kind in ("read", "tail"):
                reader.due = len(self.history)
            reader.records = self.opened(reader)
        found = next(reader.records, None)
        if found is None:
            self.check_gone(reader.position, reader.due)
            reader.position = max(reader.position, reader.due)
            if reader.kind != "tail":
                reader.records = iter(())
                return False
            reader.records = None
            return reader.due < len(self.history)
        offset, key, value = found
        assert offset >= reader.position, f"{offset} after {reader.position - 1}"
        assert (key, value) == self.history[offset]
        self.check_gone(reader.position, offset)
        reader.position = offset + 1
        self.counts[f"records by {reader.kind}"] += 1
        return True

    def opened(self, reader: Reader) -> Iterator[tuple[int, bytes, bytes]]:
        if reader.kind == "columns":
            for batch in reader.source.batches():
                columns = (batch.column(name).to_pylist() for name in ("offset", "key", "value"))
                yield from zip(*columns, strict=True)
            return
        if reader.kind == "read":
            records: Any = reader.log.read("t", from_offset=reader.position)
        else:
            records = reader.source
        for one in records:
            yield one.offset, one.key, one.value

    def check_gone(self, begin: int, end: int) -> None:
        start = self.start
        for offset in range(max(begin, start), end):
            assert self.last[self.history[offset][0]] > offset, f"{offset} was left out"
            self.counts["records compacted away"] += 1
        self.counts["records deleted"] += max(0, min(end, start) - begin)
