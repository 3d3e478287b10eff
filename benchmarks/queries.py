"""Reading files: many small segments beside one, and SQL beside DuckDB over Parquet.

Processor time of this process. The same records lie in a log of one segment, and in one that has a
segment for each batch.
"""

import contextlib
import shutil
import time
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import ottla
from benchmarks.measuring import Scale
from benchmarks.report import Report, Target, add_figure, figures_report
from ottla.base.files import OsFileSystem
from ottla.base.partitions import OffsetRange, TopicPartition
from ottla.cli.records.sql import register_topic
from ottla.cli.target import parse_target
from ottla.codec.crc32c import crc32c
from ottla.loading.job import LoadRoute
from ottla.loading.load import load, load_job
from ottla.loading.local_engine import LocalEngine
from ottla.record.builder import RecordBatchBuilder
from ottla.record.columns import SCAN_SIZE
from ottla.sources.log_files import LogFiles
from ottla.sources.topic_choice import TopicChoice
from ottla.storage.diagnosis.directory_check import check

SEGMENTS = 10_000
SHARE = 10
"""Of the segments, in the log that costs are compared with which grow with their number."""
BATCH_ROWS = 100
ROWS = 5_000_000
KEYS = 1_000_003
TOPIC = "orders"
BEGIN_MS = 1_700_000_000_000

SEGMENTS_TARGET = Target(limit=1.3, unit="times")
GROWTH_TARGET = Target(limit=SHARE, unit="times")
QUERY_TARGET = Target(limit=2, unit="times")

KEY_QUERY = "select count(distinct key) from orders"
TIME_QUERY = "select date_trunc('hour', timestamp), count(*) from orders group by 1"
OFFSET_QUERY = "select orders.offset % 1000, count(*) from orders group by 1"
BOUNDS_QUERY = 'select min("offset"), max("offset"), sum("offset"), count(*) from orders'
COUNT_QUERY = "select count(*) from orders"
QUERIES = {
    "keys": KEY_QUERY,
    "times": TIME_QUERY,
    "offsets": OFFSET_QUERY,
    "bounds of offsets": BOUNDS_QUERY,
    "count": COUNT_QUERY,
}


def run(scale: Scale) -> Iterator[Report]:
    with scale.data_directory() as directory:
        count = scale.of(SEGMENTS, 20)
        _fill(directory / "one", count * BATCH_ROWS, is_rolled=False)
        _fill(directory / "many", count * BATCH_ROWS, is_rolled=True)
        yield _many_segments(scale, directory, count)
        yield _scans(scale, directory, count)
        _fill(directory / "fewer", count // SHARE * BATCH_ROWS, is_rolled=True)
        yield _growth(scale, directory, count)
        _fill(directory / "log", scale.of(ROWS, 300), is_rolled=False)
        yield _queries(scale, directory)


def _fill(path: Path, rows: int, *, is_rolled: bool) -> None:
    with ottla.open(path) as log:
        log.create_topic(TOPIC, config={"retention.ms": -1})
    # A log keeps files open until they are synced, and a process has only so many.
    step = 1000 * BATCH_ROWS
    for first in range(0, rows, step):
        _append(path, range(first, min(rows, first + step)), is_rolled=is_rolled)


def _append(path: Path, rows: range, *, is_rolled: bool) -> None:
    with ottla.open(path) as log:
        for first in rows[::BATCH_ROWS]:
            builder = RecordBatchBuilder()
            for one in range(first, first + BATCH_ROWS):
                builder.append(b"%016d" % (one % KEYS), b"%0100d" % one, BEGIN_MS + one)
            log.append_batch(TOPIC, 0, builder)
            if is_rolled:
                log.broker.topics.partition(TOPIC, 0).log.writer.roll(BEGIN_MS)


def _many_segments(scale: Scale, directory: Path, count: int) -> Report:
    asked = {
        "a load with --engine local": partial(_load, directory),
        "the offsets of all records": partial(_query, 'select max("offset") from orders'),
        "the keys": partial(_query, KEY_QUERY),
    }
    report = figures_report(f"{count:,} segments of {BATCH_ROWS} records, over one segment of them")
    for name, act in asked.items():
        act(directory / "one")  # what is imported at the first time counts for neither
        taken = scale.sampled(
            {one: partial(_processor_s, partial(act, directory / one)) for one in ("one", "many")}
        )
        add_figure(report, f"{name}, one segment", taken["one"], "s")
        target = SEGMENTS_TARGET if name.startswith("a load") else None
        add_figure(report, f"{name}, over it", taken["many"].over(taken["one"]), "times", target)
    return report


def _scans(scale: Scale, directory: Path, count: int) -> Report:
    report = figures_report(f"{count:,} segments of {BATCH_ROWS} records, scanned in process")
    with contextlib.ExitStack() as stack:
        logs = {one: stack.enter_context(ottla.open(directory / one)) for one in ("one", "many")}
        read = {
            one: stack.enter_context(ottla.open(directory / one, read_only=True)) for one in logs
        }
        asked: dict[str, Callable[[str], Any]] = {
            "log.scan": lambda one: deque(logs[one].scan(TOPIC), 0),
            "log.scan, to Arrow": lambda one: logs[one].scan(TOPIC).to_arrow(),
            "log.scan of a log opened to read": lambda one: deque(read[one].scan(TOPIC), 0),
        }
        for name, act in asked.items():
            act("one")
            taken = scale.sampled(
                {one: partial(_processor_s, partial(act, one)) for one in ("one", "many")}
            )
            add_figure(report, f"{name}, one segment", taken["one"], "s")
            add_figure(report, f"{name}, over it", taken["many"].over(taken["one"]), "times")
    return report


def _growth(scale: Scale, directory: Path, count: int) -> Report:
    report = figures_report(f"{count:,} segments, over {count // SHARE:,}")
    asked: dict[str, Callable[[Path], Any]] = {
        "ottla.open": lambda path: ottla.open(path).close(),
        "ottla log check": lambda path: check(OsFileSystem(), str(path)),
        "a plan": _plan,
        "a load with --engine local": partial(_load, directory),
    }
    for name, act in asked.items():
        act(directory / "fewer")
        taken = scale.sampled(
            {one: partial(_processor_s, partial(act, directory / one)) for one in ("fewer", "many")}
        )
        add_figure(report, f"{name}, of all", taken["many"], "s")
        shares = taken["many"].over(taken["fewer"])
        add_figure(report, f"{name}, over the fewer", shares, "times", GROWTH_TARGET)
    return report


def _plan(path: Path) -> None:
    log = LogFiles([str(path)], TopicChoice(subscribed=(TOPIC,)))
    (there,) = log.partitions()
    wanted = OffsetRange(from_offset=there.start_offset, until_offset=there.end_offset)
    log.splits({TopicPartition(TOPIC, 0): wanted})


def _load(directory: Path, log: Path) -> None:
    table = directory / "table"
    load(load_job(LoadRoute(str(log), TOPIC, str(table)), LocalEngine()))
    shutil.rmtree(table)


def _query(query: str, log: Path) -> None:
    import duckdb

    with duckdb.connect() as database:
        register_topic(database, parse_target(str(log)), TOPIC, "text")
        database.sql(query).fetchall()


def _queries(scale: Scale, directory: Path) -> Report:
    import duckdb

    log, file = directory / "log", directory / "rows.parquet"
    with duckdb.connect() as database:
        register_topic(database, parse_target(str(log)), TOPIC, "text")
        database.sql("select * exclude (headers) from orders").write_parquet(str(file))
    report = figures_report("SQL over a topic, beside DuckDB over the same rows in Parquet")
    segments = sorted((log / f"{TOPIC}-0").glob("*.log"))
    taken = scale.sampled({"read": partial(_processor_s, partial(_read, segments))})
    add_figure(report, "the segments read, and their checksum", taken["read"], "s")
    for name, query in QUERIES.items():
        taken = scale.sampled(
            {
                "ottla": partial(_processor_s, partial(_query, query, log)),
                "duckdb": partial(_processor_s, partial(_query_file, query, file)),
            }
        )
        add_figure(report, f"{name}: ottla", taken["ottla"], "s")
        add_figure(report, f"{name}: DuckDB", taken["duckdb"], "s")
        shares = taken["ottla"].over(taken["duckdb"])
        add_figure(report, f"{name}: the first over the second", shares, "times", QUERY_TARGET)
    return report


def _read(segments: list[Path]) -> None:
    """What no query can leave out: each byte read, and looked at for a checksum."""
    for path in segments:
        with path.open("rb", buffering=0) as file:
            while piece := file.read(SCAN_SIZE):
                crc32c(piece)


def _query_file(query: str, file: Path) -> None:
    import duckdb

    with duckdb.connect() as database:
        database.read_parquet(str(file)).create_view(TOPIC)
        database.sql(query).fetchall()


def _processor_s(act: Callable[[], Any]) -> float:
    started = time.process_time()
    act()
    return time.process_time() - started
