"""Records into an open log and out again: memory over ten million, and threads that do so together.

The log's memory is that of a process of its own, which sends with `ottla.Producer` and receives
with `ottla.Consumer`, and deletes what it has read.
"""

import multiprocessing
import os
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from time import perf_counter

import ottla
from benchmarks.machine import cost_of
from benchmarks.measuring import MEGABYTE, Samples, Scale
from benchmarks.report import Report, Target, add_figure, figures_report

COUNT = 10_000_000
TINY = 20_000
STEPS = 40
VALUE = bytes(range(100))
PLACE = ottla.TopicPartition("records", 0)
SETTINGS = {"log.segment.bytes": 64 << 20, "log.segment.delete.delay.ms": 0}

THREADS = 16
TURNS = 320
RECORDS_OF_A_TURN = 1000

FLAT = Target(limit=1.1, unit="times", is_minimum=False)
AT_LEAST_ONE = Target(limit=1, unit="times", is_minimum=True)


def run(scale: Scale) -> Iterator[Report]:
    yield _memory(scale)
    yield _threads(scale)


def _memory(scale: Scale) -> Report:
    count = scale.of(COUNT, TINY)
    report = figures_report(f"memory while {count:,} records go in and out")
    with scale.data_directory() as directory:
        sizes = memory_over(directory, count)
    tenth = STEPS // 10
    first, last = Samples(tuple(sizes[tenth : 2 * tenth])), Samples(tuple(sizes[-tenth:]))
    add_figure(report, "after a tenth to a fifth of the records", first, "MB")
    add_figure(report, "in the last tenth", last, "MB")
    add_figure(report, "the last over the first", last.over(first), "times", FLAT)
    return report


def memory_over(directory: Path, count: int) -> list[float]:
    """Megabytes that the process holds after each step of its records."""
    spawning = multiprocessing.get_context("spawn")
    ours, its = spawning.Pipe()
    process = spawning.Process(target=_in_and_out, args=(str(directory), count // STEPS, its))
    process.start()
    its.close()
    try:
        return [ours.recv() for _ in range(STEPS)]
    finally:
        process.join()


def _in_and_out(directory: str, count: int, tell: "multiprocessing.connection.Connection") -> None:
    with (
        ottla.open(directory, SETTINGS) as log,
        ottla.Producer(log) as producer,
        ottla.Consumer(log) as consumer,
    ):
        log.create_topic(PLACE.topic)
        consumer.assign({PLACE: 0})
        for step in range(1, STEPS + 1):
            for _ in range(count):
                producer.send(PLACE.topic, VALUE, partition=PLACE.partition)
            producer.flush()
            left = count
            while left:
                left -= len(consumer.consume(min(left, 10_000)))
            log.delete_records(PLACE.topic, {PLACE.partition: step * count})
            cost = cost_of(os.getpid())
            tell.send(0.0 if cost is None else cost.resident_bytes / MEGABYTE)


def _threads(scale: Scale) -> Report:
    """Rates of one thread and of several that share the same turns."""
    turns = scale.of(TURNS, THREADS)
    report = figures_report("threads that use an open log together")
    with scale.data_directory() as directory, ottla.open(directory) as log:
        log.create_topic("turns", partitions=THREADS)
        for turn, what in ((_append_and_read, "in and out"), (_append_singly, "single appends")):
            rates = scale.sampled(
                {
                    "one thread": partial(_rate, log, turn, 1, turns),
                    f"{THREADS} threads": partial(_rate, log, turn, THREADS, turns),
                }
            )
            one, several = rates.values()
            for name, samples in rates.items():
                add_figure(report, f"{name}, {what}", samples, "records/s")
            add_figure(report, "several over one", several.over(one), "times", AT_LEAST_ONE)
    return report


def _append_and_read(log: ottla.Log, partition: int) -> None:
    written = log.append_many("turns", [VALUE] * RECORDS_OF_A_TURN, partition=partition)
    begin = written[partition].from_offset
    assert sum(1 for _ in log.read("turns", partition, from_offset=begin))


def _append_singly(log: ottla.Log, partition: int) -> None:
    for _ in range(RECORDS_OF_A_TURN):
        log.append("turns", VALUE, partition=partition)


def _rate(
    log: ottla.Log, turn: Callable[[ottla.Log, int], None], threads: int, turns: int
) -> float:
    """Records a second of so many turns, shared by threads with a partition each."""

    def work(partition: int) -> None:
        for _ in range(turns // threads):
            turn(log, partition)

    workers = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
    started = perf_counter()
    for one in workers:
        one.start()
    for one in workers:
        one.join()
    return turns * RECORDS_OF_A_TURN / (perf_counter() - started)
