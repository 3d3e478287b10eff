"""Appends to a partition log, without a socket, beside bare `os.pwrite` of the same bytes.

Both write into files whose pages are in the page cache already, so that what is compared is the
work of the log and not the machine's supply of fresh memory.
"""

import os
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

from benchmarks.logs import append_all, batch_of, batch_of_size, new_id, new_log, now_ms, open_logs
from benchmarks.measuring import MEGABYTE, Samples, Scale, seconds_of, touch_file
from benchmarks.report import Report, Target, add_figure, figures_report
from ottla.base.partitions import TopicPartition
from ottla.config.topic import TopicConfig
from ottla.storage.directory.log_directory import LogDirectory
from ottla.storage.log.partition_log import PartitionLog

LARGE = 1_000_000
SHARE_TARGET = Target(limit=50, unit="%", is_minimum=True)
ONE_RECORD_TARGET = Target(limit=8, unit="us")
GROWTH_TARGET = Target(limit=1.1, unit="x")

SEGMENT_COUNTS = (1, 10, 100)
SMALL_SEGMENT = 100_000
"""Rolled at this size while a log is given its segments."""

PRODUCER_ID = 7


def run(scale: Scale) -> Iterator[Report]:
    with scale.data_directory() as directory:
        logs = open_logs(directory / "logs")
        yield _large(scale, logs, directory)
        yield _one_record(scale, logs, directory)
        yield _many_segments(scale, logs)
        logs.abandon()


class Contest:
    """The same bytes into a log and into a bare file, a new one of each for every round."""

    def __init__(self, logs: LogDirectory, directory: Path, repetitions: int) -> None:
        self._logs = logs
        self._raw_path = directory / "raw"
        self._numbers = count()
        self.repetitions = repetitions

    def seconds_of_log(self, size: int, append: Callable[[PartitionLog], None]) -> float:
        """How long one append takes."""
        name = f"contest-{next(self._numbers)}"
        log = new_log(self._logs, name, touched_size=size * self.repetitions)
        seconds = seconds_of(lambda: append(log))
        self._logs.delete_logs([TopicPartition(name, 0)])
        return seconds / self.repetitions

    def seconds_of_raw(self, batch: bytearray) -> float:
        """How long one bare write takes."""
        size = len(batch)
        touch_file(self._raw_path, size * self.repetitions)
        descriptor = os.open(self._raw_path, os.O_RDWR)
        try:
            return seconds_of(lambda: self._write_all(descriptor, batch)) / self.repetitions
        finally:
            os.close(descriptor)
            self._raw_path.unlink()

    def _write_all(self, descriptor: int, batch: bytearray) -> None:
        position = 0
        for _ in range(self.repetitions):
            position += os.pwrite(descriptor, batch, position)


def _large(scale: Scale, logs: LogDirectory, directory: Path) -> Report:
    contest = Contest(logs, directory, scale.of(400, 2))
    batch = batch_of_size(LARGE)
    samples = scale.sampled(
        {
            "raw": lambda: contest.seconds_of_raw(batch),
            "log": lambda: contest.seconds_of_log(
                len(batch), lambda log: append_all(log, batch, contest.repetitions)
            ),
        }
    )
    report = figures_report(f"Batches of {len(batch):,} bytes")
    add_figure(report, "bare pwrite", _rates(len(batch), samples["raw"]), "MB/s")
    add_figure(report, "append and write_out", _rates(len(batch), samples["log"]), "MB/s")
    share = samples["raw"].over(samples["log"]).scaled(100)
    add_figure(report, "share of the bare rate", share, "%", SHARE_TARGET)
    return report


def _rates(size: int, seconds: Samples) -> Samples:
    return Samples(tuple(size / MEGABYTE / one for one in seconds.values))


def _one_record(scale: Scale, logs: LogDirectory, directory: Path) -> Report:
    contest = Contest(logs, directory, scale.of(20_000, 20))
    batch = batch_of(1, 100)
    repeated = contest.repetitions
    samples = scale.sampled(
        {
            "raw": lambda: contest.seconds_of_raw(batch),
            "log": lambda: contest.seconds_of_log(
                len(batch), lambda log: append_all(log, batch, repeated)
            ),
            "idempotent": lambda: _idempotent(contest),
            "together": lambda: contest.seconds_of_log(
                len(batch), lambda log: _append_together(log, batch, repeated)
            ),
        },
        times=2,
    )
    micros = {name: one.scaled(1e6) for name, one in samples.items()}
    report = figures_report(f"Batches of one record, {len(batch)} bytes")
    add_figure(report, "bare pwrite", micros["raw"], "us")
    add_figure(report, "append and write_out", micros["log"], "us", ONE_RECORD_TARGET)
    add_figure(report, "  times the bare write", micros["log"].over(micros["raw"]), "x")
    add_figure(report, "of an idempotent producer", micros["idempotent"], "us")
    add_figure(report, "64 appends to one write_out, each", micros["together"], "us")
    return report


def _idempotent(contest: Contest) -> float:
    """Every batch carries the next sequence number, as it must."""
    batches = [
        batch_of(1, 100, producer_id=PRODUCER_ID, producer_epoch=0, base_sequence=number)
        for number in range(contest.repetitions)
    ]

    def append(log: PartitionLog) -> None:
        time_ms = now_ms()
        for batch in batches:
            log.writer.append_as_leader(batch, leader_epoch=0, now_ms=time_ms)
            log.writer.write_out()

    return contest.seconds_of_log(len(batches[0]), append)


def _append_together(log: PartitionLog, batch: bytearray, repetitions: int) -> None:
    """What the server does with requests that came together; each needs a buffer of its own."""
    time_ms = now_ms()
    batches = [bytearray(batch) for _ in range(64)]
    for number in range(repetitions):
        batches[number % 64][:8] = bytes(8)
        log.writer.append_as_leader(batches[number % 64], leader_epoch=0, now_ms=time_ms)
        if number % 64 == 63:
            log.writer.write_out()
    log.writer.write_out()


def _many_segments(scale: Scale, logs: LogDirectory) -> Report:
    batch = batch_of(1, 100)
    repetitions = scale.of(5_000, 10)
    counts = SEGMENT_COUNTS[:2] if scale.is_tiny else SEGMENT_COUNTS
    filled = {number: _log_of_segments(logs, number) for number in counts}
    samples = scale.sampled(
        {
            str(number): lambda log=log: (  # type: ignore[misc]
                seconds_of(lambda: append_all(log, batch, repetitions)) / repetitions
            )
            for number, log in filled.items()
        },
        times=2,
    )
    report = figures_report("One record appended to a log of many segments")
    for name, one in samples.items():
        add_figure(report, f"{name} segments", one.scaled(1e6), "us")
    growth = samples[str(counts[-1])].over(samples[str(counts[0])])
    name = f"{counts[-1]} segments over {counts[0]}"
    add_figure(report, name, growth, "x", GROWTH_TARGET)
    add_figure(report, "rolling to a new segment", _roll(scale, logs), "us")
    return report


def _log_of_segments(logs: LogDirectory, number: int) -> PartitionLog:
    """Its last segment has room for all that is measured, and its pages are there."""
    log = logs.create_log(f"segments-{number}", 0, new_id())
    batch = batch_of_size(SMALL_SEGMENT // 2)
    log.maintenance.reconfigure(TopicConfig(segment_bytes=SMALL_SEGMENT))
    while len(log.segments) < number:
        append_all(log, batch, 1)
    log.maintenance.reconfigure(TopicConfig())
    touch_file(log.segments.active.log.path, 20 * MEGABYTE, start=log.segments.active.size)
    return log


def _roll(scale: Scale, logs: LogDirectory) -> Samples:
    log = logs.create_log("rolled", 0, new_id())
    batch = batch_of(1, 100)
    seconds = []
    for _ in range(scale.of(50, 2)):
        append_all(log, batch, 1)
        seconds.append(seconds_of(lambda: log.writer.roll(now_ms())))
    return Samples(tuple(seconds)).scaled(1e6)
