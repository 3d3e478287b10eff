"""What a workload has told of itself before it was cut off, and what a log owes it for that.

A workload notes what it is about to do, and again that it is done. What was only begun may have
happened or not; what is done must hold.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum, auto

from ottla.record.batch import RecordBatch, iter_batches


class Act(Enum):
    CREATED = auto()
    """The log is there, with its name and its topic's id."""
    APPENDING = auto()
    """`records` are about to be appended; they carry their final offsets and epochs."""
    WRITTEN = auto()
    """Everything appended has been given to the operating system."""
    FLUSHED = auto()
    """Everything appended is on the disk."""
    CUTTING = auto()
    """What reaches `offset` or beyond is about to go."""
    CUT = auto()
    RESTARTING = auto()
    """Everything is about to go; the log shall continue at `offset`."""
    RESTARTED = auto()
    DELETING = auto()
    """The log shall start at `offset`."""
    START_KEPT = auto()
    """The log's start is on the disk."""
    COPIED = auto()
    """A tier has all that the log holds before `offset`."""


@dataclass(frozen=True, slots=True)
class Event:
    act: Act
    offset: int = 0
    records: bytes = b""


@dataclass(slots=True)
class Promise:
    """What may be in the log, and how much of it must be."""

    is_created: bool = False
    batches: list[bytes] = field(default_factory=list)
    """All that it may hold, in order."""
    written_end: int = 0
    """Where it ends at least after a kill."""
    flushed_end: int = 0
    """Where it ends at least after a power failure."""
    kept_start: int = 0
    """No offset below may be served again."""
    wanted_start: int = 0
    restart: int | None = None
    """It may also be empty, and continue here or at its recorded start."""

    @property
    def end(self) -> int:
        return RecordBatch(self.batches[-1]).last_offset + 1 if self.batches else self.kept_start

    def below(self, offset: int) -> list[bytes]:
        return [one for one in self.batches if RecordBatch(one).last_offset < offset]


def promise_of(events: Iterable[Event]) -> Promise:
    promise = Promise()
    for event in events:
        _take(promise, event)
    return promise


def _take(promise: Promise, event: Event) -> None:
    match event.act:
        case Act.CREATED:
            promise.is_created = True
        case Act.APPENDING:
            for batch in iter_batches(event.records):
                assert isinstance(batch, RecordBatch)
                promise.batches.append(bytes(batch.bytes_view()))
        case Act.WRITTEN:
            promise.written_end = promise.end
        case Act.FLUSHED:
            promise.written_end = promise.flushed_end = promise.end
        case Act.CUTTING:
            kept = promise.below(event.offset)
            end = RecordBatch(kept[-1]).last_offset + 1 if kept else promise.kept_start
            promise.written_end = min(promise.written_end, end)
            promise.flushed_end = min(promise.flushed_end, end)
        case Act.CUT:
            promise.batches = promise.below(event.offset)
        case Act.RESTARTING:
            promise.restart = event.offset
            promise.written_end = promise.flushed_end = 0
        case Act.RESTARTED:
            end = event.offset
            promise.batches = []
            promise.restart = None
            promise.written_end = promise.flushed_end = end
            promise.kept_start = promise.wanted_start = end
        case Act.DELETING:
            promise.wanted_start = event.offset
        case Act.START_KEPT:
            promise.kept_start = promise.wanted_start
