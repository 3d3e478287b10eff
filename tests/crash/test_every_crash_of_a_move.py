"""A broker that is cut off at every call while a partition moves, and opened again.

There is always one log of the partition, with everything that was promised, and the move goes on,
or is over, or was never begun. The same for the checkpoints that are written on the way.
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from ottla.base.files import FileSystem
from ottla.broker.broker import Broker
from ottla.broker.topics import NewTopic
from ottla.storage.truncation import delete_records_before
from ottla.testing import CrashMode, CrashPoint, FakeFileSystem, every_crash_point
from tests.brokers import NOW_MS, at, batch, disk
from tests.log_support import values
from tests.moving import numbered, opened, partition_names, pass_time

TINY_INDEXES = {"log_index_size_max_bytes": "120"}


@dataclass(frozen=True, slots=True)
class Said:
    """What the broker had promised when it was cut off: records, and where they begin."""

    written: int = 0
    flushed: int = 0
    start: int = 0


class Told:
    """Notes what is promised, as the workload goes along."""

    def __init__(self, promises: list[Said]) -> None:
        self._promises = promises
        self.last = Said()

    def tell(self, *, written: int = 0, flushed: int = 0, start: int = 0) -> None:
        self.last = Said(
            max(self.last.written, written),
            max(self.last.flushed, flushed),
            max(self.last.start, start),
        )
        self._promises.append(self.last)


def produce(broker: Broker, told: Told, count: int) -> None:
    first = told.last.written
    for content in numbered(count, first=first):
        broker.append("t", 0, batch(content), now_ms=NOW_MS)
    broker.write_out()
    told.tell(written=first + count)


def flush(broker: Broker, told: Told) -> None:
    broker.topics.partition("t", 0).log.flush()
    told.tell(flushed=told.last.written)


def begin(file_system: FileSystem, promises: list[Said]) -> tuple[Broker, Told]:
    broker = opened(file_system, ids=itertools.count(1000), **TINY_INDEXES)
    broker.create_topic(NewTopic(name="t"))
    return broker, Told(promises)


def move_and_go_on(file_system: FileSystem, promises: list[Said]) -> None:
    """Appends before, while and after; what is flushed on the way must stay so."""
    broker, told = begin(file_system, promises)
    produce(broker, told, 6)
    flush(broker, told)
    produce(broker, told, 3)
    broker.moves.request("t", 0, "/e")
    pass_time(broker)
    produce(broker, told, 2)
    flush(broker, told)
    while broker.moves:
        produce(broker, told, 1)
        pass_time(broker)
    produce(broker, told, 2)
    flush(broker, told)
    for time_ms in (1e9, 2e9, 3e9):
        broker.run_due_jobs(at(time_ms))
    broker.close()


def move_with_a_start(file_system: FileSystem, promises: list[Said]) -> None:
    """Deleted records stay deleted, wherever the checkpoint that says so lies."""
    broker, told = begin(file_system, promises)
    produce(broker, told, 9)
    broker.admin.delete_records({("t", 0): 4})
    told.tell(start=4)
    broker.moves.request("t", 0, "/e")
    pass_time(broker)
    broker.admin.delete_records({("t", 0): 6})
    told.tell(start=6)
    while broker.moves:
        pass_time(broker)
    flush(broker, told)
    broker.close()


def move_there_and_back(file_system: FileSystem, promises: list[Said]) -> None:
    """One move is given up, one is sent elsewhere, and one goes back to where it came from."""
    broker, told = begin(file_system, promises)
    produce(broker, told, 9)
    for path in ("/e", "/d", "/e", "/f", "/d"):
        broker.moves.request("t", 0, path)
        pass_time(broker)
    broker.moves.request("t", 0, "/f")
    while broker.moves:
        pass_time(broker)
    produce(broker, told, 1)
    broker.moves.request("t", 0, "/d")
    while broker.moves:
        pass_time(broker)
    flush(broker, told)


def write_checkpoints(file_system: FileSystem, promises: list[Said]) -> None:
    """Recovery points and starts are written again and again."""
    broker, told = begin(file_system, promises)
    for number in range(3):
        produce(broker, told, 3)
        flush(broker, told)
        log = broker.topics.partition("t", 0).log
        delete_records_before(log, 2 * number)
        broker.directories[0].move_cleaned(("t", 0), number or None)
        broker.directories[0].checkpoint()
        told.tell(start=2 * number)


WORKLOADS: list[Callable[[FileSystem, list[Said]], None]] = [
    move_and_go_on,
    move_with_a_start,
    move_there_and_back,
    write_checkpoints,
]


def empty_disk() -> FakeFileSystem:
    return disk("/d", "/e", "/f")


def check(point: CrashPoint) -> None:
    said = point.acknowledged[-1] if point.acknowledged else Said()
    required = said.written if point.mode is CrashMode.KEEP else said.flushed
    broker = opened(point.file_system, **TINY_INDEXES)
    if broker.topics.find("t") is None:
        assert said == Said()
        return
    check_promise(broker, point.file_system, said, required)
    found = values(broker.topics.partition("t", 0).log)
    for _ in range(200):
        pass_time(broker)
        if not broker.moves:
            break
    assert not broker.moves
    assert values(broker.topics.partition("t", 0).log) == found
    broker.append("t", 0, batch(b"more"), now_ms=NOW_MS)
    broker.write_out()
    broker.close()
    after = point.file_system.crash(CrashMode.STRICT)
    again = opened(after, **TINY_INDEXES)
    check_one_log(after)
    assert values(again.topics.partition("t", 0).log) == [*found, b"more"]


def check_promise(broker: Broker, file_system: FakeFileSystem, said: Said, required: int) -> None:
    check_one_log(file_system)
    log = broker.topics.partition("t", 0).log
    start, end = log.log_start_offset, log.log_end_offset
    assert end >= required
    assert start >= min(said.start, end)
    assert values(log) == numbered(end - start, first=start)


def check_one_log(file_system: FakeFileSystem) -> None:
    everything = [
        name for path in ("/d", "/e", "/f") for name in partition_names(file_system, path)
    ]
    assert everything.count("t-0") == 1
    assert not [name for name in everything if name.endswith("-stray")]


@pytest.mark.slow
@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda one: one.__name__)
def test_there_is_one_log_with_all_that_was_promised_at_every_crash_point(
    workload: Callable[[FileSystem, list[Said]], None],
) -> None:
    for point in every_crash_point(workload, make_file_system=empty_disk, seeds=1):
        try:
            check(point)
        except Exception as error:
            error.add_note(f"at {point}")
            raise
