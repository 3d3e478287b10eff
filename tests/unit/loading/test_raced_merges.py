"""Merges that others overtake: another load, a compaction of another program, and a kill."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import ottla
import ottla.table
from ottla.base.clock import SystemClock
from ottla.base.events import pass_over
from ottla.loading.auditing.audit import audit
from ottla.loading.job import LoadOptions, LoadRoute
from ottla.loading.load import LoadReport, load, load_job
from ottla.loading.local_engine import LocalEngine
from ottla.sources.opening import open_log, topic_options
from ottla.tables.columns.identity import Upsert
from ottla.tables.layout import LayoutOptions
from ottla.tables.maintenance.vacuum import vacuum
from ottla.tables.table import Table
from ottla.tables.writing.progress import Progress, Step
from tests.integration.cli.support import ENVIRONMENT
from tests.support.stores import environment_of, new_bucket, served

deltalake = pytest.importorskip("deltalake")
pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[3]
MERGING = "MERGING"
"""Before the first file is rewritten; the other places are the steps of a load."""

_KILLED = """
import os, signal, sys
from ottla.loading.job import LoadOptions, LoadRoute
from ottla.tables.upserts.latest_writer import LatestWriter
from ottla.loading.load import load, load_job
from ottla.loading.local_engine import LocalEngine

log, table, place = sys.argv[1:]

def kill(*_):
    os.kill(os.getpid(), signal.SIGKILL)

def stop(progress):
    if progress.step.name == place:
        kill()

if place == "MERGING":
    LatestWriter.write = kill
load(load_job(LoadRoute(log, "people", table), LocalEngine(), stop, LoadOptions()))
"""


def append(path: Path, changes: dict[bytes, bytes | None]) -> None:
    with ottla.open(path / "log") as log:
        if "people" not in log.topics():
            log.create_topic("people")
        for key, value in changes.items():
            log.append("people", value, key=key)


def loaded(path: Path, table: str, progress: Callable[[Progress], None] = pass_over) -> LoadReport:
    place = LoadRoute(str(path / "log"), "people", table)
    options = LoadOptions(layout=LayoutOptions(upsert=Upsert()))
    return load(load_job(place, LocalEngine(), progress, options))


def rows(table: str) -> dict[bytes, bytes]:
    found = ottla.table.dataset(table).to_table(["key", "value"]).to_pylist()
    assert len({row["key"] for row in found}) == len(found)
    return {row["key"]: row["value"] for row in found}


def is_equal(path: Path, table: str) -> bool:
    log = open_log(topic_options(str(path / "log"), "people"))
    return audit(Table(table), log, "people", compare_all=True).is_equal


def once(step: Step, act: Callable[[], object]) -> Callable[[Progress], None]:
    """Acts when a load comes to a step for the first time."""
    left = [act]

    def watch(progress: Progress) -> None:
        if progress.step is step and left:
            left.pop()()

    return watch


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    with served() as port:
        for name, value in environment_of(port).items():
            monkeypatch.setenv(name, value)
        yield new_bucket(port)


def test_of_two_loads_at_once_one_merges_after_the_other(tmp_path: Path, bucket: str) -> None:
    table = f"{bucket}/people"
    append(tmp_path, {b"a": b"1", b"b": b"1"})
    loaded(tmp_path, table)
    append(tmp_path, {b"a": b"2", b"c": b"1"})

    def other() -> None:
        loaded(tmp_path, table)
        append(tmp_path, {b"b": None, b"c": b"2"})

    report = loaded(tmp_path, table, once(Step.SYNCED, other))
    assert report.commit_id == 2
    assert rows(table) == {b"a": b"2", b"c": b"2"}
    assert is_equal(tmp_path, table)


def test_a_compaction_of_another_program_is_noticed_before_its_rows_come_back(
    tmp_path: Path,
) -> None:
    table = str(tmp_path / "table")
    append(tmp_path, {b"%d" % one: b"old" for one in range(20)})
    loaded(tmp_path, table)
    append(tmp_path, {b"x": b"old"})
    loaded(tmp_path, table)
    append(tmp_path, {b"7": b"new", b"8": None})
    report = loaded(
        tmp_path, table, once(Step.SYNCED, lambda: deltalake.DeltaTable(table).optimize.compact())
    )
    assert report.merged is not None
    expected = {b"%d" % one: b"old" for one in range(20)} | {b"7": b"new", b"x": b"old"}
    del expected[b"8"]
    assert rows(table) == expected


def test_a_kill_at_any_step_of_a_merge_leaves_the_latest_state(tmp_path: Path) -> None:
    table = str(tmp_path / "table")
    append(tmp_path, {b"%d" % one: b"old" for one in range(30)})
    loaded(tmp_path, table)
    for number, place in enumerate([*(step.name for step in Step), MERGING]):
        append(tmp_path, {b"%d" % number: b"%d" % number, b"%d" % (number + 15): None})
        before = rows(table)
        done = subprocess.run(
            [sys.executable, "-c", _KILLED, str(tmp_path / "log"), table, place],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ENVIRONMENT["PYTHONPATH"])},
            check=False,
        )
        assert done.returncode == -signal.SIGKILL
        assert (rows(table) == before) == (place != Step.COMMITTED.name)
        assert is_equal(tmp_path, table)
    loaded(tmp_path, table)
    assert is_equal(tmp_path, table)
    vacuum(table, SystemClock(), retention_ms=0)
    left = {str(path) for path in (tmp_path / "table" / "data").rglob("*.parquet")}
    assert left == set(ottla.table.files(table))
