"""Followers in a test: what they read, how they are stopped, and what must come of it."""

from collections.abc import Callable
from pathlib import Path

import ottla
from ottla.base.events import pass_over
from ottla.loading.auditing.audit import AuditReport, audit
from ottla.loading.follow import FollowRule
from ottla.loading.job import LoadJob, LoadOptions, LoadRoute
from ottla.loading.load import load_job
from ottla.loading.local_engine import LocalEngine
from ottla.record.builder import RecordBatchBuilder
from ottla.sources.opening import open_log, source_options
from ottla.sources.options import parse_options
from ottla.tables.layout import LayoutOptions
from ottla.tables.table import Table
from ottla.tables.values.decoder import Decoding, ValueFormat
from ottla.tables.writing.progress import Progress
from ottla.tables.writing.record_writer import OnError

INFERRED = Decoding(format=ValueFormat.JSON, schema="")
HOUR_MS = 3_600_000
START_MS = 1_700_000_000_000 // HOUR_MS * HOUR_MS
EAGER = FollowRule(interval_s=0.001, max_age_s=0.001)
DECODED = LoadOptions(
    layout=LayoutOptions(decoding=Decoding(format=ValueFormat.JSON, schema="id bigint")),
    on_error=OnError.QUARANTINE,
    min_partitions=4,
)


def append_values(path: Path, values: list[bytes | None], *, step_ms: int = 1) -> None:
    """One record to a value in partition 0 of `orders`, their times ascending by `step_ms`."""
    with ottla.open(path) as log:
        if "orders" not in log.topics():
            log.create_topic("orders", partitions=2, config={"segment.bytes": 8192})
        for first in range(0, len(values), 20):
            builder = RecordBatchBuilder()
            for number, value in enumerate(values[first : first + 20], first):
                builder.append(b"key %d" % number, value, START_MS + number * step_ms, ())
            log.append_batch("orders", 0, builder)


class StopAfter:
    """Set when it was asked so many times; something may happen each time."""

    def __init__(self, rounds: int, act: Callable[[int], None] = lambda _: None) -> None:
        self._rounds = rounds
        self._act = act
        self._done = 0

    def is_set(self) -> bool:
        return self._done >= self._rounds

    def wait(self, seconds: float) -> None:
        self._act(self._done)
        self._done += 1


def table_load(
    path: Path,
    progress: Callable[[Progress], None] = pass_over,
    options: LoadOptions = DECODED,
    source: str | None = None,
) -> LoadJob:
    place = LoadRoute(source or str(path / "log"), "orders", str(path / "table"))
    return load_job(place, LocalEngine(), progress, options)


def audited(path: Path) -> AuditReport:
    options = parse_options({**source_options(str(path / "log")), "subscribe": "orders"})
    table = Table(str(path / "table"))
    return audit(table, open_log(options), "orders", compare_all=True)


def some_orders(count: int, first: int) -> list[bytes | None]:
    """JSON, of which every seventh is broken and every eleventh a tombstone."""
    return [
        None if number % 11 == 0 else b"{" if number % 7 == 0 else b'{"id": %d}' % number
        for number in range(first, first + count)
    ]
