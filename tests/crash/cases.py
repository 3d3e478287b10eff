"""The workloads that are cut off at every call, each of a few hundred calls to its disk."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from ottla.base.files import FileSystem
from ottla.config.topic import TopicConfig
from tests.crash.history import Event
from tests.crash.workload import TINY, Writer

COMPACTED = replace(TINY, cleanup_policy=("compact",))
RETAINED = replace(TINY, retention_ms=100)
COMPACTED_AND_RETAINED = replace(RETAINED, cleanup_policy=("compact", "delete"))


@dataclass(frozen=True, slots=True)
class Case:
    """A workload, as `every_crash_point` calls it."""

    steps: Callable[[Writer], None]
    config: TopicConfig = TINY

    def __call__(self, file_system: FileSystem, events: list[Event]) -> None:
        self.steps(Writer(file_system, events, config=self.config))

    @property
    def name(self) -> str:
        return self.steps.__name__ + ("-compacted" if self.config.is_compacted else "")


def append_and_roll(writer: Writer) -> None:
    """Producers with and without transactions, epochs, flushes, rolls, a clean stop in between."""
    writer.open()
    writer.append(2, producer=1)
    writer.append(1, producer=2, transaction=True)
    writer.append(1, producer=1)
    writer.end_transaction(2, commit=False)
    writer.flush()
    writer.epoch = 1
    writer.append(3, producer=2, transaction=True)
    writer.append_together([1, 2])
    writer.checkpoint()
    writer.append(1, producer=3, transaction=True)
    writer.end_transaction(2, commit=True)
    writer.flush()
    writer.append(2, producer=1)
    writer.end_transaction(3, commit=False)
    writer.close()
    writer.open()
    writer.epoch = 2
    writer.append(1, producer=1)
    writer.append(2)
    writer.append(1, producer=2, transaction=True)


def cut_the_end(writer: Writer) -> None:
    """A follower that must give up what its new leader does not have."""
    writer.open()
    for _ in range(5):
        writer.append(2, producer=1)
    writer.append(1, producer=2, transaction=True)
    writer.end_transaction(2, commit=False)
    writer.flush()
    writer.checkpoint()
    writer.epoch = 1
    writer.append(1, producer=1)
    writer.truncate(11)
    writer.epoch = 2
    writer.append(1, producer=1)
    writer.truncate(3)
    writer.epoch = 3
    for _ in range(5):
        writer.append(2, producer=3)
    writer.flush()
    writer.restart(50)
    writer.epoch = 4
    writer.append(2, producer=3)


def cut_from_the_front(writer: Writer) -> None:
    """Retention: the log's start moves up, its first segments go."""
    writer.open()
    for epoch in range(3):
        writer.epoch = epoch
        writer.append(2, producer=1)
        writer.append(1, producer=2 + epoch, transaction=True)
        writer.append(2)
        writer.end_transaction(2 + epoch, commit=epoch == 1)
    writer.delete_before(5)
    writer.flush()
    writer.delete_before(12)
    writer.checkpoint()
    writer.delete_before(13)
    writer.append(2, producer=1)
    writer.append(1)
    writer.delete_before(21)
    writer.append(2, producer=1)
    writer.close()
    writer.open()
    writer.append(1, producer=1)


def roll_by_hand(writer: Writer) -> None:
    """Segments end just where a flush, or a stop, was."""
    writer.open()
    writer.append(2)
    writer.flush()
    writer.roll()
    writer.append(1, producer=1, transaction=True)
    writer.flush()
    writer.roll()
    writer.end_transaction(1, commit=False)
    writer.append(2)
    writer.append(2)
    writer.flush()
    writer.roll()
    writer.close()
    writer.open()
    writer.roll()
    writer.append(1)


def retain(writer: Writer) -> None:
    """Old segments go: some, some in slices, and all, with appends and stops in between."""
    writer.open()
    for epoch in range(3):
        writer.epoch = epoch
        for _ in range(3):
            writer.append(2, producer=1)
        writer.append(1, producer=2 + epoch, transaction=True)
        writer.end_transaction(2 + epoch, commit=epoch == 1)
    writer.retain(0)
    writer.append(2)
    writer.retain(60, max_count=1)
    writer.flush()
    writer.append(1, producer=1)
    writer.checkpoint()
    writer.retain(1000, in_slices=True)
    writer.append(2, producer=1)
    writer.append(2)
    writer.retain(1000)
    writer.close()
    writer.open()
    writer.append(1, producer=1)


def recreate(writer: Writer) -> None:
    """A topic is deleted, and another of the same name made."""
    writer.open()
    writer.append(2, producer=1)
    writer.append(2, producer=1)
    writer.delete_before(3)
    writer.flush()
    writer.checkpoint()
    writer.recreate()
    writer.append(1, producer=1)
    writer.append(3)


CASES = [
    Case(append_and_roll),
    Case(append_and_roll, COMPACTED),
    Case(cut_the_end),
    Case(cut_from_the_front),
    Case(roll_by_hand),
    Case(recreate),
    Case(retain, RETAINED),
    Case(retain, COMPACTED_AND_RETAINED),
]
