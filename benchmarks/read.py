"""Finding an offset in a large segment: what a fetch does before `sendfile`.

A read gives a slice of a file and copies nothing, so its cost is the search in the index and the
walk over batch headers after it.
"""

from collections.abc import Iterator

from benchmarks.logs import CHANCE, Shape, append_all, batch_of, new_log, open_logs
from benchmarks.measuring import Scale, seconds_of
from benchmarks.report import Report, Target, add_figure, figures_report
from ottla.storage.directory.log_directory import LogDirectory
from ottla.storage.log.offsets import Isolation
from ottla.storage.log.partition_log import PartitionLog

SEGMENT_SIZE = 1_000_000_000
MAX_SIZE = 1 << 20
LOOKUP_TARGET = Target(limit=10, unit="us")


SHAPES = (
    Shape(name="1 KB", record_count=10, value_size=85),
    Shape(name="16 KB", record_count=16, value_size=1000),
)


def run(scale: Scale) -> Iterator[Report]:
    for shape in SHAPES:
        with scale.data_directory() as directory:
            logs = open_logs(directory)
            yield _lookups(scale, logs, shape)
            logs.abandon()


def _lookups(scale: Scale, logs: LogDirectory, shape: Shape) -> Report:
    batch = batch_of(shape.record_count, shape.value_size)
    size = scale.of(SEGMENT_SIZE, 100_000)
    log = new_log(logs, "read", touched_size=size)
    append_all(log, batch, size // len(batch))
    end = log.log_end_offset
    count = scale.of(20_000, 50)
    anywhere = [CHANCE.randrange(end) for _ in range(count)]
    near_end = [end - 1 - CHANCE.randrange(min(end, 1000)) for _ in range(count)]
    onward = [number * shape.record_count for number in range(size // len(batch))][:count]
    samples = scale.sampled(
        {
            "anywhere": lambda: _seconds_each(log, anywhere),
            "near the end": lambda: _seconds_each(log, near_end),
            "one batch after the other": lambda: _seconds_each(log, onward),
            "at the end, where nothing is": lambda: _seconds_each(log, [end] * count),
        },
        times=2,
    )
    segment = log.segments.active
    report = figures_report(
        f"A read in a segment of {segment.size:,} bytes, batches of {shape.name}"
    )
    for name, one in samples.items():
        target = LOOKUP_TARGET if name == "anywhere" else None
        add_figure(report, name, one.scaled(1e6), "us", target)
    return report


def _seconds_each(log: PartitionLog, offsets: list[int]) -> float:
    def read_all() -> None:
        for offset in offsets:
            log.reader.read(offset, MAX_SIZE, Isolation.HIGH_WATERMARK)

    return seconds_of(read_all) / len(offsets)
