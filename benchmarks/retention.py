"""Retention over many segments, and what a broker of many partitions costs while it is idle."""

import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from benchmarks.logs import now_ms
from benchmarks.measuring import Samples, Scale, seconds_of
from benchmarks.report import Report, Target, add_figure, figures_report
from ottla.base.clock import SystemClock
from ottla.base.timestamps import Timestamps
from ottla.broker.broker import Broker
from ottla.embedded.environment import Environment
from ottla.embedded.log import Log
from ottla.metadata.deciding.topics import NewTopic
from ottla.record.builder import RecordBatchBuilder
from ottla.runtime.collector import Collector
from ottla.runtime.opening import open_broker

SEGMENT_COUNT = 10_000
PARTITION_COUNT = 2000
IDLE_S = 10.0
FILES_HELD = 2000
HOUR_MS = 3_600_000

RETENTION_TARGET = Target(limit=1, unit="s")
IDLE_TARGET = Target(limit=2, unit="%")

RULES = {
    "by time, with index files not opened before": {"retention.ms": str(HOUR_MS)},
    "by size": {"retention.ms": "-1", "retention.bytes": "0"},
}

SMALL_INDEXES = {"log.index.size.max.bytes": "1024"}


def run(scale: Scale) -> Iterator[Report]:
    yield _many_segments(scale)
    yield _idle(scale)


def _many_segments(scale: Scale) -> Report:
    segments = scale.of(SEGMENT_COUNT, 20)
    report = figures_report(f"Retention of {segments:,} segments in one partition")
    for rule, overrides in RULES.items():
        passes: list[float] = []
        slices: list[float] = []
        for _ in range(scale.rounds):
            with scale.data_directory() as directory:
                broker = _with_segments(directory, segments, overrides)
                Collector().begin()
                taken = _slices(broker, Timestamps(now_ms=now_ms() + 2 * HOUR_MS, monotonic_ms=0.0))
                assert len(broker.topics.partition("t", 0).log.segments) == 1
                passes.append(sum(taken))
                slices.append(max(taken) * 1000)
                broker.close()
        add_figure(report, f"all of it, {rule}", Samples(tuple(passes)), "s", RETENTION_TARGET)
        add_figure(
            report, "  the longest slice, during which clients wait", Samples(tuple(slices)), "ms"
        )
    return report


def _slices(broker: Broker, at: Timestamps) -> list[float]:
    """How long each slice of a pass takes."""
    taken: list[float] = []
    has_more = [True]

    def run_slice() -> None:
        has_more[0] = broker.log_jobs.retention.run_slice(at)

    while has_more[0]:
        taken.append(seconds_of(run_slice))
    return taken


def _with_segments(directory: Path, segments: int, overrides: dict[str, str]) -> Broker:
    """A log whose every segment has one batch, opened again, so that nothing is in memory."""
    clock = SystemClock()
    broker = open_broker([str(directory)], SMALL_INDEXES, clock=clock)
    broker.admin.create_topic(NewTopic(name="t", overrides=dict(overrides)))
    for made in range(segments):
        if made % FILES_HELD == 0:
            # A segment that was written keeps three files open, one that was not keeps one.
            broker.close()
            broker = open_broker([str(directory)], SMALL_INDEXES, clock=clock)
        builder = RecordBatchBuilder()
        builder.append(None, bytes(100), now_ms())
        broker.appends.append(
            broker.topics.partition("t", 0), bytearray(builder.build()), now_ms=now_ms()
        )
        broker.appends.write_out()
        broker.topics.partition("t", 0).log.writer.roll(now_ms())
    broker.close()
    return open_broker([str(directory)], SMALL_INDEXES, clock=clock)


def _idle(scale: Scale) -> Report:
    partitions = scale.of(PARTITION_COUNT, 5)
    seconds = IDLE_S if not scale.is_tiny else 0.1
    shares: list[float] = []
    with scale.data_directory() as directory:
        clock = SystemClock()
        settings = {**SMALL_INDEXES, "log.initial.task.delay.ms": "1000"}
        reopen = partial(open_broker, [str(directory)], settings, clock=clock)
        broker = reopen()
        broker.admin.create_topic(NewTopic(name="many", partition_count=partitions))
        with Log(broker, Environment(clock=clock), reopen) as log:
            for partition in range(partitions):
                log.append("many", b"value", partition=partition)
            time.sleep(min(seconds, 2.0))  # the first run of every job
            for _ in range(scale.rounds):
                shares.append(_share_of_a_core(seconds))
    report = figures_report(f"A broker of {partitions:,} partitions while nobody asks anything")
    add_figure(report, "of one core", Samples(tuple(shares)), "%", IDLE_TARGET)
    return report


def _share_of_a_core(seconds: float) -> float:
    started, used = time.perf_counter(), time.process_time()
    time.sleep(seconds)
    return 100 * (time.process_time() - used) / (time.perf_counter() - started)
