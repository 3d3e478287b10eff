"""Ten thousand small loads into one table: does the n-th cost what the second did?

Processor time of this process, in which `--engine local` runs all. One job loads again and again,
as `--follow` does; now and then another opens the table anew, as a command does.
"""

import statistics
import time
from collections.abc import Iterator
from pathlib import Path

import ottla
from benchmarks.measuring import Samples, Scale
from benchmarks.report import Report, Target, add_figure, figures_report
from ottla.loading.job import LoadJob, LoadRoute
from ottla.loading.load import load, load_job
from ottla.loading.local_engine import LocalEngine

LOADS = 10_000
RECORDS = 10
WINDOW = 200
"""Loads of which the median counts: a checkpoint is written in one of twenty."""

TOPIC = "orders"

FLAT_TARGET = Target(limit=1.3, unit="")


def run(scale: Scale) -> Iterator[Report]:
    count, window = scale.of(LOADS, 8), scale.of(WINDOW, 2)
    with scale.data_directory() as directory, ottla.open(directory / "log") as log:
        log.create_topic(TOPIC, config={"retention.ms": -1})
        follower = _job(directory)
        following: list[float] = []
        opening: list[float] = []
        for number in range(count):
            log.append_many(TOPIC, [b"%d" % number] * RECORDS)
            first_s = _load_s(follower)
            following.append(first_s)
            if number % window in (1, window // 2):
                log.append_many(TOPIC, [b"%d" % number] * RECORDS)
                opening.append(_opened_s(directory))
    medians = [
        statistics.median(following[first : first + window])
        for first in range(1, count - window + 1, window)
    ]
    report = figures_report(f"{count:,} loads of {RECORDS} records, in processor time")
    add_figure(report, f"loads 2 to {window + 1}", Samples((medians[0],)), "s")
    add_figure(report, f"the last {window}", Samples((medians[-1],)), "s")
    add_figure(report, "their ratio", Samples((medians[-1] / medians[0],)), "", FLAT_TARGET)
    worst = max(medians) / medians[0]
    add_figure(report, f"that of the slowest {window}", Samples((worst,)), "")
    mean = statistics.mean(following[-window:]) / statistics.mean(following[1 : window + 1])
    add_figure(report, "the ratio of the means, with checkpoints", Samples((mean,)), "")
    opened = statistics.mean(opening[-4:]) / statistics.mean(opening[:4])
    add_figure(report, "the same, with the table opened anew", Samples((opened,)), "")
    yield report


def _job(directory: Path) -> LoadJob:
    route = LoadRoute(str(directory / "log"), TOPIC, str(directory / "table"))
    return load_job(route, LocalEngine())


def _load_s(job: LoadJob) -> float:
    started = time.process_time()
    report = load(job)
    seconds = time.process_time() - started
    assert report.row_count == RECORDS, report
    return seconds


def _opened_s(directory: Path) -> float:
    started = time.process_time()
    load(_job(directory))
    return time.process_time() - started
