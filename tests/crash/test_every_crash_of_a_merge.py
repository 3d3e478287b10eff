"""Power cuts at any call of a merge: the table is the latest state after one load or another."""

import itertools
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import ottla
from ottla.base.files import FileSystem
from ottla.loading.auditing.audit import audit
from ottla.loading.job import LoadJob, LoadOptions, LoadRoute
from ottla.loading.load import load, load_job
from ottla.loading.local_engine import LocalEngine
from ottla.loading.rerun import rerun
from ottla.loading.rerun_plan import rerun_range
from ottla.tables.columns.identity import Upsert
from ottla.tables.layout import LayoutOptions
from ottla.tables.table import Table
from ottla.testing import FakeFileSystem, every_crash_point
from tests.support.shadowed import OnBoth, put_down

deltalake = pytest.importorskip("deltalake")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

Rows = dict[bytes, bytes]

CHANGES: list[Rows] = [
    {b"anna": b"1", b"bert": b"1", b"cora": b"1"},
    {b"bert": b"2", b"cora": b"", b"dora": b"2"},
    {b"anna": b"", b"dora": b"3", b"cora": b"3"},
]
"""What each load brings; an empty value is a delete."""


def append(log: Path, changes: Rows) -> None:
    with ottla.open(log) as opened:
        if "people" not in opened.topics():
            opened.create_topic("people")
        for key, value in changes.items():
            opened.append("people", value or None, key=key)


def states() -> list[Rows]:
    """What the table has after each of the loads, and before the first."""
    found: list[Rows] = [{}]
    for changes in CHANGES:
        merged = {**found[-1], **changes}
        found.append({key: value for key, value in merged.items() if value})
    return found


LAYOUTS = {
    "latest": LayoutOptions(upsert=Upsert()),
    # Deleted keys are kept, and entries of Delta's log are written by Ottla.
    "fed": LayoutOptions(upsert=Upsert(version="timestamp"), has_change_feed=True),
}


def job_of(
    log: Path, table: Path, layout: LayoutOptions, file_system: FileSystem | None = None
) -> LoadJob:
    options = LoadOptions(layout=layout, min_partitions=2)
    job = load_job(LoadRoute(str(log), "people", str(table)), LocalEngine(1), options=options)
    return job if file_system is None else replace(job, table=Table(str(table), file_system))


def rows(table: Path, version: int | None = None) -> Rows:
    found = deltalake.DeltaTable(str(table), version=version).to_pyarrow_table()
    keys = found["key"].to_pylist()
    assert len(set(keys)) == len(keys)
    return dict(zip(keys, found["value"].to_pylist(), strict=True))


def disk_with(directory: Path) -> FakeFileSystem:
    disk = FakeFileSystem()
    for one in [*reversed(directory.parents), directory]:
        if str(one) != "/":
            disk.make_directory(str(one))
            disk.sync_directory(str(one.parent))
    return disk


@pytest.mark.parametrize(
    ("kind", "stride"),
    [
        ("latest", 16),
        ("fed", 24),
        pytest.param("latest", 1, marks=pytest.mark.long),
        pytest.param("fed", 1, marks=pytest.mark.long),
    ],
)
def test_whatever_a_power_cut_leaves_of_a_merge_is_the_state_after_a_load(
    tmp_path: Path, kind: str, stride: int
) -> None:
    layout = LAYOUTS[kind]
    log, root = tmp_path / "log", tmp_path / "tables" / "people"
    root.mkdir(parents=True)

    def loads(file_system: FileSystem, acknowledged: list[Any]) -> None:
        both: Any = OnBoth(root, file_system)
        for number, changes in enumerate(CHANGES, 1):
            append(log, changes)
            load(job_of(log, root, layout, both))
            acknowledged.append(number)
        rerun(job_of(log, root, layout, both), rerun_range("3", None, "people"))

    expected, cuts = states(), 0
    points = every_crash_point(loads, make_file_system=lambda: disk_with(root), seeds=1)
    for number, point in enumerate(itertools.islice(points, 0, None, stride)):
        left = tmp_path / f"left-{number}"
        put_down(point.file_system, str(root), left)
        done = len(point.acknowledged)
        with job_of(log, left, layout).table.claim():
            """As each writer begins: an entry without its end, of no promised commit, goes."""
        if any(left.glob("_delta_log/*.json")):
            newest = deltalake.DeltaTable(str(left)).version() + 1
            # The cut may have come after a commit: of the next load, or of the rerun.
            assert newest in (done, done + 1), point
            for version in range(newest):
                assert rows(left, version) == expected[min(version + 1, 3)], point
        else:
            assert done == 0, point
        load(job_of(log, left, layout))
        assert rows(left) == expected[3], point
        job = job_of(log, left, layout)
        assert audit(job.table, job.log, "people", compare_all=True).is_equal, point
        shutil.rmtree(left)
        cuts += 1
    assert cuts > 10
