"""Opening a data directory: after a crash, batch by batch, and after a clean stop."""

import mmap
from collections.abc import Iterator
from pathlib import Path

from benchmarks.logs import Shape, append_all, batch_of, new_log, now_ms, open_logs
from benchmarks.measuring import MEGABYTE, Samples, Scale, seconds_of
from benchmarks.report import Report, Target, add_figure, figures_report
from ottla.base.clock import SystemClock
from ottla.broker.broker import Broker
from ottla.codec.crc32c import crc32c
from ottla.metadata.deciding.topics import NewTopic
from ottla.runtime.opening import open_broker
from ottla.storage.files.filenames import log_file_name

SEGMENT_SIZE = 1_000_000_000
PARTITION_COUNT = 1000
TOPIC = "many"

RATE_TARGET = Target(limit=500, unit="MB/s", is_minimum=True)
OPEN_TARGET = Target(limit=1, unit="s")

SHAPES = (
    Shape(name="1 KB", record_count=10, value_size=85),
    Shape(name="16 KB", record_count=16, value_size=1000),
    Shape(name="1 MB", record_count=1000, value_size=1000),
)


def run(scale: Scale) -> Iterator[Report]:
    yield _recoveries(scale)
    yield _openings(scale)


def _recoveries(scale: Scale) -> Report:
    size = scale.of(SEGMENT_SIZE, 2_000_000)
    report = figures_report(f"Recovery of an unclean segment of {size:,} bytes")
    for shape in SHAPES:
        with scale.data_directory() as directory:
            log_file = _crashed(directory, shape, size)
            samples = scale.sampled(
                {
                    "recovery": lambda: seconds_of(lambda: open_logs(directory).abandon()),
                    "checksum": lambda: seconds_of(lambda: _checksum(log_file)),  # noqa: B023
                }
            )
            written = log_file.stat().st_size
        rates = {name: _rates(written, one) for name, one in samples.items()}
        add_figure(report, f"batches of {shape.name}", rates["recovery"], "MB/s", RATE_TARGET)
        add_figure(report, "  a bare CRC-32C of the file", rates["checksum"], "MB/s")
    return report


def _crashed(directory: Path, shape: Shape, size: int) -> Path:
    """Leaves a log of one segment as a killed broker would; returns the segment's file."""
    logs = open_logs(directory)
    batch = batch_of(shape.record_count, shape.value_size)
    log = new_log(logs, "crashed", touched_size=size)
    append_all(log, batch, size // len(batch))
    log.segments.active.log.trim()
    logs.abandon()
    return Path(log.directory) / log_file_name(0)


def _checksum(path: Path) -> None:
    with (
        path.open("rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped,
        memoryview(mapped) as view,
    ):
        crc32c(view)


def _rates(size: int, seconds: Samples) -> Samples:
    return Samples(tuple(size / MEGABYTE / one for one in seconds.values))


def _openings(scale: Scale) -> Report:
    count = scale.of(PARTITION_COUNT, 3)
    opened: list[float] = []
    closed: list[float] = []
    with scale.data_directory() as directory:
        creating = seconds_of(lambda: _create_partitions(directory, count))
        for _ in range(scale.rounds):
            broker = _broker(directory, opened)
            closed.append(seconds_of(broker.close))
    report = figures_report(f"A directory of {count:,} partitions, each with a record")
    add_figure(report, "opening after a clean stop", Samples(tuple(opened)), "s", OPEN_TARGET)
    add_figure(report, "closing", Samples(tuple(closed)), "s")
    add_figure(report, "making and closing it", Samples((creating,)), "s")
    return report


def _broker(directory: Path, seconds: list[float]) -> Broker:
    brokers: list[Broker] = []
    clock = SystemClock()
    opening = lambda: brokers.append(open_broker([str(directory)], {}, clock=clock))  # noqa: E731
    seconds.append(seconds_of(opening))
    return brokers[0]


def _create_partitions(directory: Path, count: int) -> None:
    broker = _broker(directory, [])
    broker.admin.create_topic(NewTopic(name=TOPIC, partition_count=count))
    for partition in range(count):
        broker.appends.append(
            broker.topics.partition(TOPIC, partition), batch_of(1, 100), now_ms=now_ms()
        )
    broker.appends.write_out()
    broker.close()
