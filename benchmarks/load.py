"""`ottla load`: rows and memory beside Spark's own generator writing the same rows, and the start.

Each measurement is a process of its own, as a user's is. Memory is what the Python process, the JVM
and its workers have resident of their own, looked at ten times a second; pages of the log's files
that they have mapped are the system's.
"""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import ottla
from benchmarks.measuring import Samples, Scale
from benchmarks.report import Report, Target, add_figure, figures_report
from ottla.record.builder import RecordBatchBuilder

ROWS = 10_000_000
MANY_ROWS = 100_000_000
BATCH_ROWS = 1000
SMALL_BATCH = 100_000
TOPIC = "orders"
MEGABYTE = 1 << 20
LOOK_S = 0.1

SHARE_TARGET = Target(limit=0.8, unit="", is_minimum=True)
START_TARGET = Target(limit=12, unit="s")
GROWTH_TARGET = Target(limit=1.25, unit="")

SPARK_CODE = """
import json, sys, time
from pyspark.sql.functions import col, concat, lit, lpad, rpad
from ottla.spark.session import LocalSession, SessionSettings
count, target = int(sys.argv[1]), sys.argv[2]
session = LocalSession.start(SessionSettings(log_level="OFF", is_short=count < 1_000_000))
number = col("id").cast("string")
rows = session.spark.range(0, count, 1, 2).select(
    lpad(number, 16, "0").cast("binary").alias("key"),
    concat(lpad(number, 10, "0"), lit("{filler}")).cast("binary").alias("value"),
    lit(0).alias("partition"), col("id").alias("offset"),
    (lit(1_700_000_000_000) + col("id")).alias("ms"), lit(0).alias("timestamp_type"),
    lit("orders").alias("topic"), lit(0).cast("bigint").alias("commit_id"),
).selectExpr("*", "timestamp_millis(ms) as timestamp",
    "cast(array() as array<struct<key: string, value: binary>>) as headers").drop("ms")
writer = rows.write.option("compression", "zstd")
for name in ("offset", "value"):
    writer = writer.option(f"parquet.enable.dictionary#{name}", "false")
started = time.monotonic()
writer.parquet(target)
print(json.dumps({"seconds": time.monotonic() - started}))
session.stop()
"""
LOAD_CODE = """
import json, sys, time
from ottla.spark.load import Step, load
committed = []
def told(progress):
    if progress.step is Step.COMMITTED:
        committed.append(time.time())
report = load(sys.argv[1], "orders", sys.argv[2], progress=told)
print(json.dumps({"seconds": report.write_seconds, "committed": committed[0]}))
"""
LOCAL_CODE = """
import json, sys, time
from ottla.loading.job import LoadRoute
from ottla.tables.writing.progress import Step
from ottla.loading.load import load, load_job
from ottla.loading.local_engine import LocalEngine
committed = []
def told(progress):
    if progress.step is Step.COMMITTED:
        committed.append(time.time())
report = load(load_job(LoadRoute(sys.argv[1], "orders", sys.argv[2]), LocalEngine(), told))
print(json.dumps({"seconds": report.write_seconds, "committed": committed[0]}))
"""
FILLER = (
    "ottla writes this to make values of one hundred bytes, all of them but for a number ".ljust(90)
)


@dataclass(frozen=True, slots=True)
class Run:
    """One process: what it said, when it had committed, and its largest size in bytes."""

    seconds: float
    committed_s: float
    peak: int


def run(scale: Scale) -> Iterator[Report]:
    count = scale.of(ROWS, 2000)
    with scale.data_directory() as directory:
        _fill(directory / "log", count)
        _fill(directory / "tenth", count // 10)
        _fill(directory / "small", 1000)
        os.sync()  # So that the disk is not busy with the logs while the first load writes.
        yield _rates(scale, directory, count)
        yield _starts(scale, directory)
        shutil.rmtree(directory / "log")
        yield _many(scale, directory)


def _rates(scale: Scale, directory: Path, count: int) -> Report:
    target = directory / "table"
    runs = scale.take_turns(
        {
            "load": lambda: _measured(LOAD_CODE, directory / "log", target),
            "tenth": lambda: _measured(LOAD_CODE, directory / "tenth", target),
            "local": lambda: _measured(LOCAL_CODE, directory / "log", target),
            "local tenth": lambda: _measured(LOCAL_CODE, directory / "tenth", target),
            "spark": lambda: _measured(SPARK_CODE.replace("{filler}", repr(FILLER)), count, target),
        }
    )
    rates = {name: _of(some, lambda one: count / one.seconds) for name, some in runs.items()}
    peaks = {name: _of(some, lambda one: one.peak / MEGABYTE) for name, some in runs.items()}
    report = figures_report(f"{count:,} records of 16 + 100 bytes into Parquet (zstd)")
    add_figure(report, "ottla load from files, while writing", rates["load"], "rows/s")
    add_figure(report, "Spark's own generator, the same rows", rates["spark"], "rows/s")
    share = rates["load"].over(rates["spark"])
    add_figure(report, "the one over the other", share, "", SHARE_TARGET)
    add_figure(report, "ottla load --engine local, while writing", rates["local"], "rows/s")
    committed = {name: _of(some, lambda one: one.committed_s) for name, some in runs.items()}
    saved = committed["local"].over(committed["load"])
    add_figure(report, "  from its start to its commit, over that with Spark", saved, "")
    add_figure(report, "maximum memory of the load", peaks["load"], "MB")
    add_figure(report, "  of a load of a tenth as many rows", peaks["tenth"], "MB")
    growth = peaks["load"].over(peaks["tenth"])
    add_figure(report, "  the one over the other", growth, "", GROWTH_TARGET)
    add_figure(report, "memory of the local load at its largest", peaks["local"], "MB")
    growth = peaks["local"].over(peaks["local tenth"])
    add_figure(report, "  over that of a tenth as many rows", growth, "", GROWTH_TARGET)
    add_figure(report, "memory of Spark's own generator", peaks["spark"], "MB")
    return report


def _starts(scale: Scale, directory: Path) -> Report:
    target = directory / "table"
    runs = scale.take_turns({"": lambda: _measured(LOAD_CODE, directory / "small", target)})
    report = figures_report("A load of 1,000 records, Java and Spark started for it")
    committed = _of(runs[""], lambda one: one.committed_s)
    add_figure(report, "from the start of the process to its commit", committed, "s", START_TARGET)
    return report


def _many(scale: Scale, directory: Path) -> Report:
    """Memory where it would grow with the rows: small ones, so that there can be very many."""
    count = scale.of(MANY_ROWS, 2000)
    rows = {"few": count // 10, "many": count}
    for name, wanted in rows.items():
        _fill_small(directory / name, wanted)
    runs = {name: _measured(LOCAL_CODE, directory / name, directory / "table") for name in rows}
    peaks = {name: Samples((one.peak / MEGABYTE,)) for name, one in runs.items()}
    report = figures_report(f"{count:,} records of 10 bytes, --engine local")
    add_figure(report, "rows while writing", Samples((count / runs["many"].seconds,)), "rows/s")
    add_figure(report, "maximum memory", peaks["many"], "MB")
    add_figure(report, f"  of a load of {rows['few']:,}", peaks["few"], "MB")
    growth = peaks["many"].over(peaks["few"])
    add_figure(report, "  the one over the other", growth, "", GROWTH_TARGET)
    return report


def _of(runs: list[Run], figure: Callable[[Run], float]) -> Samples:
    return Samples(tuple(figure(one) for one in runs))


def _fill(path: Path, count: int) -> None:
    with ottla.open(path) as log:
        # The records are not of today: retention by time must leave them.
        log.create_topic(TOPIC, config={"retention.ms": -1})
        for first in range(0, count, BATCH_ROWS):
            builder = RecordBatchBuilder()
            for number in range(first, min(first + BATCH_ROWS, count)):
                value = b"%010d%s" % (number, FILLER.encode())
                builder.append(b"%016d" % number, value, 1_700_000_000_000 + number, ())
            log.append_batch(TOPIC, 0, builder)


def _fill_small(path: Path, count: int) -> None:
    with ottla.open(path) as log:
        log.create_topic(TOPIC)
        for first in range(0, count, SMALL_BATCH):
            last = min(first + SMALL_BATCH, count)
            log.append_many(TOPIC, [b"%010d" % number for number in range(first, last)])


def _measured(code: str, first: object, target: Path) -> Run:
    started = time.time()
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(first), str(target)], stdout=subprocess.PIPE, text=True
    )
    peak = 0
    while process.poll() is None:
        peak = max(peak, _tree_size(process.pid))
        time.sleep(LOOK_S)
    assert process.stdout is not None
    told = json.loads(process.stdout.read().splitlines()[-1])
    process.stdout.close()
    assert process.returncode == 0
    shutil.rmtree(target)
    return Run(told["seconds"], told.get("committed", started) - started, peak)


def _tree_size(root: int) -> int:
    """Resident bytes of a process and all below it."""
    parents: dict[int, int] = {}
    sizes: dict[int, int] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                text = Path("/proc", name, "status").read_text()
            except OSError:
                continue
            fields = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
            parents[int(name)] = int(fields["PPid"])
            sizes[int(name)] = int(fields.get("RssAnon", "0").split()[0]) * 1024
    return sum(size for pid, size in sizes.items() if is_below(pid, root, parents))


def is_below(pid: int, root: int, parents: dict[int, int]) -> bool:
    while pid not in (root, 0):
        pid = parents.get(pid, 0)
    return pid == root
