"""A broker that is cut off at every call while a partition moves, and opened again.

There is always one log of the partition, with everything that was promised, and the move continues,
or is over, or was never begun. The same for the checkpoints that are written on the way.
"""

import dataclasses
import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from ottla.base.files import FileSystem
from ottla.base.partitions import TopicPartition
from ottla.broker.broker import Broker
from ottla.metadata.deciding.topics import NewTopic
from ottla.testing import (
    CrashMode,
    CrashPoint,
    FakeFileSystem,
    FaultPlan,
    FaultyFileSystem,
    IoKind,
    every_crash_point,
)
from ottla.testing.faults import SimulatedCrash
from tests.crash.sampling import sample
from tests.support.brokers import NOW_MS, at, batch, disk
from tests.support.logs import values
from tests.support.moving import numbered, opened, partition_names, pass_time

A_THIRD = 1 / 3
"""Of the calls, at which a mixture of what was not synced is tried; `make crash` tries all."""

TINY_INDEXES = {"log_index_size_max_bytes": "120"}


@dataclass(frozen=True, slots=True)
class Said:
    """What the broker had promised when it was cut off: records, and where they begin."""

    written: int = 0
    flushed: int = 0
    start: int = 0
    may_be_gone: bool = False
    is_gone: bool = False


class Told:
    """Notes what is promised, as the workload goes along."""

    def __init__(self, promises: list[Said]) -> None:
        self._promises = promises
        self.last = Said()

    def tell(self, *, written: int = 0, flushed: int = 0, start: int = 0) -> None:
        self.note(
            written=max(self.last.written, written),
            flushed=max(self.last.flushed, flushed),
            start=max(self.last.start, start),
        )

    def note(self, **changes: object) -> None:
        self.last = dataclasses.replace(self.last, **changes)
        self._promises.append(self.last)


def produce(broker: Broker, told: Told, count: int) -> None:
    first = told.last.written
    for content in numbered(count, first=first):
        broker.appends.append(broker.topics.partition("t", 0), batch(content), now_ms=NOW_MS)
    broker.appends.write_out()
    told.tell(written=first + count)


def flush(broker: Broker, told: Told) -> None:
    broker.topics.partition("t", 0).log.writer.flush()
    told.tell(flushed=told.last.written)


def begin(file_system: FileSystem, promises: list[Said]) -> tuple[Broker, Told]:
    broker = opened(file_system, ids=itertools.count(1000), **TINY_INDEXES)
    broker.admin.create_topic(NewTopic(name="t"))
    return broker, Told(promises)


def move_and_go_on(file_system: FileSystem, promises: list[Said]) -> None:
    """Appends before, while and after; what is flushed on the way must stay so."""
    broker, told = begin(file_system, promises)
    produce(broker, told, 6)
    flush(broker, told)
    produce(broker, told, 3)
    key, log = TopicPartition("t", 0), broker.topics.partition("t", 0).log
    broker.log_jobs.access.begin_cleaning(key, log, lambda: None)
    broker.log_jobs.moves.request("t", 0, "/e")
    pass_time(broker)
    produce(broker, told, 2)
    flush(broker, told)
    for _ in range(3):
        produce(broker, told, 1)
        pass_time(broker)
    broker.log_jobs.access.end_cleaning(key, log)
    while broker.log_jobs.moves:
        produce(broker, told, 1)
        pass_time(broker)
    produce(broker, told, 2)
    flush(broker, told)
    for time_ms in (1e9, 2e9, 3e9):
        broker.scheduler.run_due(at(time_ms))
    broker.close()


def move_with_a_start(file_system: FileSystem, promises: list[Said]) -> None:
    """Deleted records stay deleted, wherever the checkpoint that says so lies."""
    broker, told = begin(file_system, promises)
    produce(broker, told, 9)
    broker.admin.delete_records({("t", 0): 4})
    told.tell(start=4)
    broker.log_jobs.moves.request("t", 0, "/e")
    pass_time(broker)
    broker.admin.delete_records({("t", 0): 6})
    told.tell(start=6)
    while broker.log_jobs.moves:
        pass_time(broker)
    flush(broker, told)
    broker.close()


def move_there_and_back(file_system: FileSystem, promises: list[Said]) -> None:
    """One move is given up, one is sent elsewhere, and one goes back to where it came from."""
    broker, told = begin(file_system, promises)
    produce(broker, told, 9)
    for path in ("/e", "/d", "/e", "/f", "/d"):
        broker.log_jobs.moves.request("t", 0, path)
        pass_time(broker)
    broker.log_jobs.moves.request("t", 0, "/f")
    while broker.log_jobs.moves:
        pass_time(broker)
    produce(broker, told, 1)
    broker.log_jobs.moves.request("t", 0, "/d")
    while broker.log_jobs.moves:
        pass_time(broker)
    flush(broker, told)


def write_checkpoints(file_system: FileSystem, promises: list[Said]) -> None:
    """Recovery points and starts are written again and again."""
    broker, told = begin(file_system, promises)
    for number in range(3):
        produce(broker, told, 3)
        flush(broker, told)
        log = broker.topics.partition("t", 0).log
        log.maintenance.delete_records_before(2 * number)
        broker.directories[0].checkpoints.move_cleaned(("t", 0), number or None)
        broker.directories[0].checkpoints.write()
        told.tell(start=2 * number)


def delete_while_moving(file_system: FileSystem, promises: list[Said]) -> None:
    """Neither the log nor its copy comes back once the topic is gone."""
    broker, told = begin(file_system, promises)
    produce(broker, told, 9)
    broker.log_jobs.moves.request("t", 0, "/e")
    pass_time(broker)
    told.note(may_be_gone=True)
    broker.admin.delete_topic(broker.topics.get("t"))
    told.note(is_gone=True)
    pass_time(broker)
    broker.close()


WORKLOADS: list[Callable[[FileSystem, list[Said]], None]] = [
    move_and_go_on,
    move_with_a_start,
    move_there_and_back,
    delete_while_moving,
    write_checkpoints,
]


def empty_disk() -> FakeFileSystem:
    return disk("/d", "/e", "/f")


def check(point: CrashPoint) -> None:
    said = point.acknowledged[-1] if point.acknowledged else Said()
    required = said.written if point.mode is CrashMode.KEEP else said.flushed
    broker = opened(point.file_system, **TINY_INDEXES)
    if broker.topics.find("t") is None:
        assert said == Said() or said.may_be_gone
        assert [name[-7:] for name in everything(point.file_system)] in (
            [],
            ["-delete"],
            ["-delete"] * 2,
        )
        return
    assert not said.is_gone
    check_promise(broker, point.file_system, said, required)
    found = values(broker.topics.partition("t", 0).log)
    for _ in range(200):
        pass_time(broker)
        if not broker.log_jobs.moves:
            break
    assert not broker.log_jobs.moves
    assert values(broker.topics.partition("t", 0).log) == found
    broker.appends.append(broker.topics.partition("t", 0), batch(b"more"), now_ms=NOW_MS)
    broker.appends.write_out()
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
    names = everything(file_system)
    assert names.count("t-0") == 1
    assert not [name for name in names if name.endswith("-stray")]


def everything(file_system: FakeFileSystem) -> list[str]:
    return [name for path in ("/d", "/e", "/f") for name in partition_names(file_system, path)]


@pytest.mark.slow
@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda one: one.__name__)
def test_there_is_one_log_with_all_that_was_promised_at_every_crash_point(
    workload: Callable[[FileSystem, list[Said]], None], crash_seconds: float
) -> None:
    points = every_crash_point(workload, make_file_system=empty_disk, seeds=1, share=A_THIRD)
    check_all(sample(points, crash_seconds))
    until = time.monotonic() + crash_seconds
    while time.monotonic() < until:
        first_seed = time.time_ns()
        check_all(every_crash_point(workload, make_file_system=empty_disk, first_seed=first_seed))


def check_all(points: Iterator[CrashPoint]) -> None:
    for point in points:
        try:
            check(point)
        except Exception as error:
            error.add_note(f"at {point}")
            raise


def disk_between_the_renames() -> FakeFileSystem:
    """What a crash left when the log was put away and the copy had not yet its name."""
    under = empty_disk()
    recording = FaultyFileSystem(under)
    move_and_go_on(recording, [])
    second = next(
        number
        for number, call in enumerate(recording.calls)
        if call.kind is IoKind.RENAME and call.target == "/e/t-0"
    )
    under = empty_disk()
    crashing = FaultyFileSystem(under, FaultPlan(at_call=second, error=SimulatedCrash()))
    with pytest.raises(SimulatedCrash):
        move_and_go_on(crashing, [])
    return under.crash(CrashMode.STRICT)


@pytest.mark.slow
def test_a_start_that_finishes_a_move_can_be_cut_off_too(crash_seconds: float) -> None:
    left = disk_between_the_renames()
    marks = [name[-7:] for name in everything(left)]
    assert sorted(marks) == ["-delete", "-future"]
    found = values(opened(left.crash(CrashMode.KEEP)).topics.partition("t", 0).log)
    assert len(found) > 11

    def start(file_system: FileSystem, promises: list[Said]) -> None:
        broker = opened(file_system, ids=itertools.count(9000), **TINY_INDEXES)
        for time_ms in (0.0, 1e9, 2e9):
            broker.scheduler.run_due(at(time_ms))

    points = every_crash_point(
        start, make_file_system=lambda: left.crash(CrashMode.KEEP), seeds=1, share=A_THIRD
    )
    for point in sample(points, crash_seconds):
        broker = opened(point.file_system, **TINY_INDEXES)
        check_one_log(point.file_system)
        assert values(broker.topics.partition("t", 0).log) == found, point
