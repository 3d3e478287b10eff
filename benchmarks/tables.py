"""Tables: the shortest load without Spark, commits, opening one of many commits, and its files.

A table of 20,000 commits takes hours to load, so its commits are made of one: the entries of its
log and of its ledger are written as loads write them, with the numbers of each commit, and their
data files are not there. A query that touched another file than the one it needs would fail.
"""

import json
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import ottla
from benchmarks.brokers import source_environment
from benchmarks.measuring import Samples, Scale, seconds_of
from benchmarks.report import Report, Target, add_figure, figures_report
from ottla.base.files import OsFileSystem
from ottla.loading.job import LoadRoute
from ottla.loading.load import LoadReport, load, load_job
from ottla.loading.local_engine import LocalEngine
from ottla.record.builder import RecordBatchBuilder
from ottla.tables.ledger.ledger import Ledger
from ottla.tables.stores.local_store import LocalStore
from ottla.tables.table import Table

RECORDS = 1000
COMMITTED_FILES = 1000
COMMITS = 20_000
SEARCHED_FILES = 10_000
SMALL_PARTITIONS = 200
SMALL_ROWS = 10_000
NEW_COMMITS = 10
"""Commits since the last checkpoint, which is what a table has on average half as many of."""

START_TARGET = Target(limit=1, unit="s")
COMMIT_TARGET = Target(limit=0.5, unit="s")
OPEN_TARGET = Target(limit=1, unit="s")
READ_TARGET = Target(limit=1, unit="files")
SMALL_TARGET = Target(limit=9, unit="files")


class _Unsynced(OsFileSystem):
    """Makes a table that is to be measured, and need not outlast a power cut."""

    def sync_directory(self, path: str) -> None:
        """Nothing: the table is thrown away."""


def run(scale: Scale) -> Iterator[Report]:
    with scale.data_directory() as directory:
        _fill(directory / "small", RECORDS)
        yield _short_loads(scale, directory)
        yield _commits(scale, directory)
        yield _many_commits(scale, directory)
        yield _small_partitions(scale, directory)


def _short_loads(scale: Scale, directory: Path) -> Report:
    processor: list[float] = []

    def wall_s() -> float:
        target = directory / "short"
        words = ["load", str(directory / "small"), "orders", "--into", str(target)]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        taken_s = seconds_of(
            lambda: subprocess.run(
                [sys.executable, "-m", "ottla", *words, "--engine", "local"],
                check=True,
                stdout=subprocess.DEVNULL,
                env=source_environment(),
            )
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        processor.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        shutil.rmtree(target)
        return taken_s

    samples = scale.sampled({"": wall_s}, times=scale.of(4, 1))[""]
    report = figures_report(f"{RECORDS:,} records with --engine local")
    add_figure(report, "the whole process", samples, "s", START_TARGET)
    add_figure(report, "  its processor time", Samples(tuple(processor)), "s")
    return report


def _commits(scale: Scale, directory: Path) -> Report:
    """A commit of many files, which another load has written and synced."""
    count = scale.of(COMMITTED_FILES, 10)
    number = 0

    def commit_s() -> float:
        nonlocal number
        number += 1
        path = directory / f"committed-{number}"
        _load(directory / "small", path)
        table = Table(str(path))
        with table.claim():
            entry = table.entries()[0]
            (file,) = entry.files
            part = replace(
                entry.partitions[0], from_offset=RECORDS, until_offset=RECORDS * (count + 1)
            )
            files = [
                replace(
                    file,
                    path=f"data/load-{1:020d}-00000000/part-0-{one}.parquet",
                    first_offset=one * RECORDS,
                    last_offset=(one + 1) * RECORDS - 1,
                )
                for one in range(1, count + 1)
            ]
            new = replace(entry, commit_id=1, layout=None, partitions=(part,), files=tuple(files))
            return seconds_of(lambda: table.commit(new))

    report = figures_report("Commits to Delta")
    add_figure(
        report,
        f"a commit of {count:,} files",
        scale.sampled({"": commit_s})[""],
        "s",
        COMMIT_TARGET,
    )
    return report


def _many_commits(scale: Scale, directory: Path) -> Report:
    count, searched = scale.of(COMMITS, 40), scale.of(SEARCHED_FILES, 20)
    _make_commits(directory, directory / "many", count)
    _make_commits(directory, directory / "searched", searched)
    samples = scale.sampled(
        {
            "open": lambda: seconds_of(lambda: _opened(directory / "many", count)),
            "delta": lambda: seconds_of(lambda: _delta_table(directory / "many").version()),
            "search": lambda: seconds_of(lambda: _searched(directory / "searched")),
        }
    )
    read = Samples((float(len(_fragments(directory / "searched"))),))
    report = figures_report(f"A table of {count:,} commits, and one of {searched:,} files")
    add_figure(report, "opened, to load what is new", samples["open"], "s", OPEN_TARGET)
    add_figure(report, "opened by deltalake", samples["delta"], "s")
    add_figure(report, f"files read for one offset, of {searched:,}", read, "files", READ_TARGET)
    add_figure(report, "  the whole query, by pyarrow", samples["search"], "s")
    return report


def _small_partitions(scale: Scale, directory: Path) -> Report:
    partitions, rows = scale.of(SMALL_PARTITIONS, 4), scale.of(SMALL_ROWS, 50)
    with ottla.open(directory / "wide") as log:
        log.create_topic("orders", partitions=partitions)
        for partition in range(partitions):
            _append(log, partition, rows)
    loads: list[LoadReport] = []
    seconds = seconds_of(lambda: loads.append(_load(directory / "wide", directory / "wide-table")))
    files = {file.path for file in loads[0].files}
    report = figures_report(f"{partitions} partitions of {rows:,} records, --engine local")
    add_figure(report, "files", Samples((float(len(files)),)), "files", SMALL_TARGET)
    rate = Samples((partitions * rows / seconds,))
    add_figure(report, "rows from start to commit, without imports", rate, "rows/s")
    return report


def _fill(path: Path, count: int) -> None:
    with ottla.open(path) as log:
        log.create_topic("orders")
        _append(log, 0, count)


def _append(log: ottla.Log, partition: int, count: int) -> None:
    for first in range(0, count, RECORDS):
        builder = RecordBatchBuilder()
        for number in range(first, min(first + RECORDS, count)):
            builder.append(b"%016d" % number, b"%0100d" % number, 1_700_000_000_000 + number)
        log.append_batch("orders", partition, builder)


def _load(log: Path, table: Path) -> LoadReport:
    return load(load_job(LoadRoute(str(log), "orders", str(table)), LocalEngine()))


def _make_commits(directory: Path, path: Path, count: int) -> None:
    """A table of so many loads, of which the first two have files that are there."""
    log = directory / f"log of {path.name}"
    with ottla.open(log) as opened:
        opened.create_topic("orders", config={"retention.ms": -1})
    for _ in range(2):
        with ottla.open(log) as opened:
            _append(opened, 0, RECORDS)
        _load(log, path)
    (second,) = Table(str(path)).entries()[1:]
    ledger = Ledger(LocalStore(str(path), _Unsynced()))
    lines = (path / "_delta_log" / f"{1:020d}.json").read_text().splitlines()
    actions = [json.loads(line) for line in lines]
    for number in range(2, count):
        if number == count - NEW_COMMITS:
            _delta_table(path).create_checkpoint()
        first = number * RECORDS
        file = replace(
            second.files[0],
            path=f"data/load-{number:020d}-00000000/part-0-{first}.parquet",
            first_offset=first,
            last_offset=first + RECORDS - 1,
        )
        part = replace(second.partitions[0], from_offset=first, until_offset=first + RECORDS)
        entry = replace(second, commit_id=number, version=number, files=(file,), partitions=(part,))
        text = "\n".join(json.dumps(_numbered(one, number, file.path)) for one in actions)
        (path / "_delta_log" / f"{number:020d}.json").write_text(f"{text}\n")
        ledger.append(entry)


def _numbered(action: dict[str, Any], number: int, path: str) -> dict[str, Any]:
    """An action of the second commit as that of a later one."""
    kind, fields = next(iter(action.items()))
    first = number * RECORDS
    match kind:
        case "add":
            stats = json.loads(fields["stats"])
            stats["minValues"]["offset"] = first
            stats["maxValues"]["offset"] = first + RECORDS - 1
            fields = {**fields, "path": path, "stats": json.dumps(stats)}
        case "txn":
            version = number if fields["appId"] == "ottla" else first + RECORDS
            fields = {**fields, "version": version}
        case _:
            facts = {**fields["ottla"]["facts"], "commit_id": number}
            fields = {**fields, "ottla": {**fields["ottla"], "facts": facts}}
    return {kind: fields}


def _opened(path: Path, count: int) -> None:
    assert Table(str(path)).state().commit_count == count


def _delta_table(path: Path) -> Any:
    import deltalake

    return deltalake.DeltaTable(str(path))


def _wanted() -> Any:
    import pyarrow.compute as pc

    return (pc.field("partition") == 0) & (pc.field("offset") == RECORDS + 5)


def _fragments(path: Path) -> list[Any]:
    return list(_delta_table(path).to_pyarrow_dataset().get_fragments(_wanted()))


def _searched(path: Path) -> None:
    rows = _delta_table(path).to_pyarrow_dataset().to_table(filter=_wanted())
    assert rows.column("offset").to_pylist() == [RECORDS + 5]
