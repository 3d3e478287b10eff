"""Records into an open log and out again: memory over ten million, and threads that do so together.

The log's memory is that of a process of its own, which sends with `ottla.Producer` and receives
with `ottla.Consumer`, and deletes what it has read.
"""

import multiprocessing
import os
import threading
from collections.abc import Iterator
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
    turns = scale.of(TURNS, THREADS)
    report = figures_report("threads that append and read an open log together")
    names = {1: "one thread", THREADS: f"{THREADS} threads"}
    with scale.data_directory() as directory, ottla.open(directory) as log:
        log.create_topic("turns", partitions=THREADS)
        rates = scale.sampled(
            {name: lambda n=number: _rate(log, n, turns) for number, name in names.items()}
        )
    for name, samples in rates.items():
        add_figure(report, name, samples, "records/s, in and out")
    one, several = (rates[name] for name in names.values())
    add_figure(report, "several over one", several.over(one), "times", AT_LEAST_ONE)
    return report


def _rate(log: ottla.Log, threads: int, turns: int) -> float:
    """Records a second of so many turns, shared by threads: each appends some and reads them."""

    def work(partition: int) -> None:
        for _ in range(turns // threads):
            written = log.append_many("turns", [VALUE] * RECORDS_OF_A_TURN, partition=partition)
            begin = written[partition].from_offset
            assert sum(1 for _ in log.read("turns", partition, from_offset=begin))

    workers = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
    started = perf_counter()
    for one in workers:
        one.start()
    for one in workers:
        one.join()
    return turns * RECORDS_OF_A_TURN / (perf_counter() - started)
