"""The loops over records in batches of 1, 10, 160 and 10,000: a check before they are stored, and
their columns for Spark; in one process, one thread."""

import time
from collections.abc import Callable, Iterator
from functools import partial

from benchmarks.measuring import Samples, Scale
from benchmarks.report import Report, add_figure, figures_report
from ottla.record import walk
from ottla.record.batch import RecordBatch
from ottla.record.builder import RecordBatchBuilder
from ottla.record.columns import iter_columns

SIZES = (1, 10, 160, 10_000)
RECORDS = 40_000
VALUE = b"v" * 100


def run(scale: Scale) -> Iterator[Report]:
    kind = "compiled" if walk.IS_COMPILED else "as its source"
    report = figures_report(f"Records of 116 bytes; the walk is {kind}")
    for size in SIZES:
        batches = _batches(size, scale.of(RECORDS, 100) // size + 1)
        count = size * len(batches)
        check = _rate(scale, partial(_check, batches), count)
        add_figure(report, f"checked, {size:,} in a batch", check, "ns each")
        region = b"".join(bytes(one.bytes_view()) for one in batches)
        columns = _rate(scale, partial(_columns, region), count)
        add_figure(report, f"as columns, {size:,} in a batch", columns, "ns each")
    yield report


def _batches(size: int, count: int) -> list[RecordBatch]:
    made = []
    for number in range(count):
        builder = RecordBatchBuilder(number * size)
        for one in range(size):
            builder.append(b"key-%08d" % one, VALUE, 1_700_000_000_000 + one)
        made.append(RecordBatch(memoryview(bytearray(builder.build()))))
    return made


def _check(batches: list[RecordBatch]) -> None:
    for batch in batches:
        assert walk.check_records(batch, batch.payload, *walk.ANY_TIME) == 0


def _columns(region: bytes) -> None:
    for _ in iter_columns(region):
        pass


def _rate(scale: Scale, work: Callable[[], None], count: int) -> Samples:
    """Processor time, the least of a few tries, since others share the machine."""

    def once() -> float:
        least = float("inf")
        for _ in range(5):
            started = time.process_time()
            work()
            least = min(least, time.process_time() - started)
        return least / count * 1e9

    return scale.sampled({"": once})[""]
