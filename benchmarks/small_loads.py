"""Thousands of small loads into one table of Delta or Iceberg: does the n-th cost what the second
did?

Processor time of this process, in which `--engine local` runs all. One job loads again and again,
as `--follow` does; now and then another opens the table anew, as a command does.
"""

import os
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import ottla
from benchmarks.measuring import Samples, Scale
from benchmarks.report import Report, Target, add_figure, figures_report
from ottla.loading.job import LoadJob, LoadRoute
from ottla.loading.load import load, load_job
from ottla.loading.local_engine import LocalEngine

LOADS = 10_000
ICEBERG_LOADS = 2_000
RECORDS = 10
WINDOW = 200
"""Loads of which the median counts: a checkpoint is written in one of twenty."""

OPENED = 20
"""One of so many loads is made once more by a job that opens the table anew."""

TOPIC = "orders"
CATALOG = "bench"
EXPIRY = {"history.expire.max-snapshot-age-ms": "0", "history.expire.min-snapshots-to-keep": "100"}

FLAT_TARGET = Target(limit=1.3, unit="")


def run(scale: Scale) -> Iterator[Report]:
    with scale.data_directory() as directory:
        yield _loads(scale, directory, str(directory / "table"), LOADS)
    with scale.data_directory() as directory, _catalog(directory) as catalog:
        yield _loads(scale, directory, f"iceberg://{CATALOG}/all.{TOPIC}", ICEBERG_LOADS)
        into = f"iceberg://{CATALOG}/expired.{TOPIC}"
        load(_job(directory, into))
        with catalog.load_table(f"expired.{TOPIC}").transaction() as transaction:
            transaction.set_properties(EXPIRY)
        yield _loads(scale, directory, into, ICEBERG_LOADS)


@contextmanager
def _catalog(directory: Path) -> Iterator[Any]:
    from pyiceberg.catalog import load_catalog

    uri, warehouse = f"sqlite:///{directory}/catalog.db", f"file://{directory}/lake"
    name = f"PYICEBERG_CATALOG__{CATALOG.upper()}__"
    with patch.dict(os.environ, {f"{name}URI": uri, f"{name}WAREHOUSE": warehouse}):
        catalog = load_catalog(CATALOG, type="sql", uri=uri, warehouse=warehouse)
        for namespace in ("all", "expired"):
            catalog.create_namespace(namespace)
        yield catalog


def _loads(scale: Scale, directory: Path, into: str, most: int) -> Report:
    count, window = scale.of(most, 8), scale.of(WINDOW, 2)
    following: list[float] = []
    opening: list[float] = []
    with ottla.open(directory / "log") as log:
        if TOPIC not in log.topics():
            log.create_topic(TOPIC, config={"retention.ms": -1})
        follower = _job(directory, into)
        for number in range(count):
            log.append_many(TOPIC, [b"%d" % number] * RECORDS)
            following.append(_load_s(follower))
            if number % OPENED == 1:
                log.append_many(TOPIC, [b"%d" % number] * RECORDS)
                opening.append(_opened_s(directory, into))
    medians = [
        statistics.median(following[first : first + window])
        for first in range(1, count - window + 1, window)
    ]
    report = figures_report(f"{count:,} loads of {RECORDS} records into {into}, in processor time")
    add_figure(report, f"loads 2 to {window + 1}", Samples((medians[0],)), "s")
    add_figure(report, f"the last {window}", Samples((medians[-1],)), "s")
    add_figure(report, "their ratio", Samples((medians[-1] / medians[0],)), "", FLAT_TARGET)
    worst = max(medians) / medians[0]
    add_figure(report, f"that of the slowest {window}", Samples((worst,)), "")
    mean = statistics.mean(following[-window:]) / statistics.mean(following[1 : window + 1])
    add_figure(report, "the ratio of the means, with checkpoints", Samples((mean,)), "")
    # Medians, as a few loads of one figure may or may not have had a checkpoint to write.
    opened = statistics.median(opening[-OPENED:]) / statistics.median(opening[:OPENED])
    add_figure(report, "the same, with the table opened anew", Samples((opened,)), "")
    return report


def _job(directory: Path, into: str) -> LoadJob:
    return load_job(LoadRoute(str(directory / "log"), TOPIC, into), LocalEngine())


def _load_s(job: LoadJob) -> float:
    started = time.process_time()
    report = load(job)
    seconds = time.process_time() - started
    assert report.row_count == RECORDS, report
    return seconds


def _opened_s(directory: Path, into: str) -> float:
    started = time.process_time()
    load(_job(directory, into))
    return time.process_time() - started
