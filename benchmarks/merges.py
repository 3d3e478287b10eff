"""Changes merged into a table of the latest rows, beside plain loads and deltalake's MERGE."""

import random
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import ottla
import ottla.table
from benchmarks.measuring import Samples, Scale
from benchmarks.report import Report, add_figure, figures_report
from ottla.loading.job import LoadOptions, LoadRoute
from ottla.loading.load import load, load_job
from ottla.loading.local_engine import LocalEngine
from ottla.record.builder import RecordBatchBuilder
from ottla.tables.columns.identity import Upsert
from ottla.tables.entries import DataFile, rows_only, total_size
from ottla.tables.layout import LayoutOptions
from ottla.tables.maintenance.optimize import OptimizeOptions, optimize
from ottla.tables.maintenance.sorting import SortColumn
from ottla.tables.table import Table

ROWS = 1_000_000
CHANGES = 10_000
BATCH_ROWS = 1000
TOPIC = "people"
FILE_SIZE = 4 * 1024 * 1024
"""Of the sorted table, so that it has files that a merge can leave alone."""

VALUE_SIZE = 100
POOL = random.Random(7).randbytes(1 << 20)
"""From which values are cut: bytes that no codec makes much smaller."""


def run(scale: Scale) -> Iterator[Report]:
    count, some = scale.of(ROWS, 2000), scale.of(CHANGES, 20)
    with scale.data_directory() as directory:
        append(directory / "log", range(count))
        loads = scale.sampled(
            {
                "plain": lambda: load_seconds(directory, is_latest=False),
                "latest": lambda: load_seconds(directory, is_latest=True),
            }
        )
        plain, latest = loads["plain"], loads["latest"]
        report = figures_report(
            f"{count:,} records of 16 + 100 bytes with a key each, then {some:,} changes at a time"
        )
        add_figure(report, "a load with a row for each record", rate(plain, count), "rows/s")
        add_figure(report, "a load of the latest rows", rate(latest, count), "rows/s")
        add_figure(report, "the second over the first", plain.over(latest), "")
        yield report
        yield _merges(scale, directory, count, some)
        yield _on_read(directory, count, [max(1, some // 100), some, min(some * 10, count)])


def _merges(scale: Scale, directory: Path, count: int, some: int) -> Report:
    load_new(directory, "table", is_latest=True)
    table = directory / "table"
    options = OptimizeOptions(sort_by=SortColumn.KEY, target_size=scale.of(FILE_SIZE, 20_000))
    started = time.monotonic()
    optimize(str(table), LocalEngine(), options=options)
    sorting = Samples((time.monotonic() - started,))
    chance = random.Random(1)

    def near() -> float:
        first = chance.randrange(count - some)
        return merge_seconds(directory, range(first, first + some))

    def anywhere() -> float:
        return merge_seconds(directory, sorted(chance.sample(range(count), some)))

    shutil.copytree(table, directory / "theirs")
    contestants: dict[str, Callable[[], float]] = {"near": near, "anywhere": anywhere}
    if scale.peers:
        keys = chance.sample(range(count), some)
        contestants["deltalake"] = lambda: delta_merge_seconds(directory / "theirs", keys)
    samples = scale.sampled(contestants)
    report = figures_report(f"{some:,} changes merged into {count:,} rows, sorted by key")
    add_figure(report, "the table sorted by key", rate(sorting, count), "rows/s")
    add_figure(report, "changes of adjacent keys", samples["near"], "s")
    add_figure(report, "changes of random keys", samples["anywhere"], "s")
    if scale.peers:
        add_figure(report, "MERGE of deltalake, random keys", samples["deltalake"], "s")
        add_figure(
            report, "the one over the other", samples["deltalake"].over(samples["anywhere"]), ""
        )
    return report


def _on_read(directory: Path, count: int, changes: Sequence[int]) -> Report:
    """What merges write, beside what deletion vectors and the new rows alone would take."""
    chance = random.Random(2)
    columns = ["changes", "keys", "rewritten", "seconds", "on read", "seconds", "files masked"]
    report = Report(title=f"Merges into {count:,} rows: rewriting, and on read", columns=columns)
    for some in changes:
        first = chance.randrange(count - some + 1)
        for name, keys in (
            ("adjacent", list(range(first, first + some))),
            ("random", sorted(chance.sample(range(count), some))),
        ):
            before = rows_only(Table(str(directory / "table")).current_files())
            seconds = merge_seconds(directory, keys)
            rewritten = total_size(Table(str(directory / "table")).entries()[-1].files)
            started = time.monotonic()
            vectors, added = _vectors(directory, before, keys), _parquet_size(keys)
            report.add(
                f"{some:,}",
                name,
                f"{rewritten:,} bytes",
                f"{seconds:.2f} s",
                f"{sum(vectors) + added:,} bytes",
                f"{time.monotonic() - started:.2f} s",
                f"{len(vectors)} of {len(before)}",
            )
    report.notes.append(
        "On read: the new rows, and for each file that has rows of their keys a roaring bitmap of "
        "places, as Delta's and Iceberg's deletion vectors are; without reading the log."
    )
    return report


def _vectors(directory: Path, files: Sequence[DataFile], keys: Sequence[int]) -> list[int]:
    """The sizes of the deletion vectors of files."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyroaring import BitMap

    wanted = pa.array([b"%016d" % one for one in keys], pa.binary())
    low, high = wanted[0].as_py(), wanted[-1].as_py()
    found = []
    for file in files:
        if file.keys is not None and not (file.keys[0] <= high and low <= file.keys[1]):
            continue
        there = Table(str(directory / "table")).files.rows(file, ["key"])["key"]
        places = np.flatnonzero(pc.is_in(there, wanted).to_numpy())
        if len(places):
            found.append(len(BitMap(places.tolist()).serialize()))
    return found


def _parquet_size(keys: Sequence[int]) -> int:
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = pa.table(
        {"key": [b"%016d" % one for one in keys], "value": [value(one) for one in keys]}
    )
    sink = pa.BufferOutputStream()
    pq.write_table(rows, sink, compression="zstd")
    return int(sink.getvalue().size)


def rate(seconds: Samples, count: int) -> Samples:
    return Samples(tuple(count / one for one in seconds.values))


def append(log: Path, keys: Iterable[int]) -> None:
    listed = list(keys)
    with ottla.open(log) as opened:
        if TOPIC not in opened.topics():
            opened.create_topic(TOPIC, config={"retention.ms": -1})
        for first in range(0, len(listed), BATCH_ROWS):
            builder = RecordBatchBuilder()
            for number in listed[first : first + BATCH_ROWS]:
                builder.append(b"%016d" % number, value(number), 1_700_000_000_000 + first, ())
            opened.append_batch(TOPIC, 0, builder)


def value(number: int) -> bytes:
    start = number * 97 % (len(POOL) - VALUE_SIZE)
    return POOL[start : start + VALUE_SIZE]


def load_new(directory: Path, table: str, *, is_latest: bool) -> None:
    place = LoadRoute(str(directory / "log"), TOPIC, str(directory / table))
    layout = LayoutOptions(upsert=Upsert() if is_latest else None)
    options = LoadOptions(layout=layout, target_size=FILE_SIZE)
    load(load_job(place, LocalEngine(), options=options))


def load_seconds(directory: Path, *, is_latest: bool) -> float:
    started = time.monotonic()
    load_new(directory, "loaded", is_latest=is_latest)
    seconds = time.monotonic() - started
    shutil.rmtree(directory / "loaded")
    return seconds


def merge_seconds(directory: Path, keys: Iterable[int]) -> float:
    append(directory / "log", keys)
    started = time.monotonic()
    load_new(directory, "table", is_latest=True)
    return time.monotonic() - started


def delta_merge_seconds(table: Path, keys: Iterable[int]) -> float:
    """The same change of the same rows; the log is not read."""
    import pyarrow as pa
    from deltalake import DeltaTable

    listed = [b"%016d" % one for one in keys]
    source = pa.table({"key": pa.array(listed, pa.binary()), "value": [value(one) for one in keys]})
    started = time.monotonic()
    (
        DeltaTable(str(table))
        .merge(source, "t.key = s.key", source_alias="s", target_alias="t")
        .when_matched_update({"value": "s.value"})
        .execute()
    )
    return time.monotonic() - started
