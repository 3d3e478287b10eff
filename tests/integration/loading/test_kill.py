"""Loads without Spark whose process is killed for real, and what comes after, in either format."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.base.clock import SystemClock
from ottla.tables.maintenance.vacuum import vacuum
from ottla.tables.table import Table
from ottla.tables.writing.progress import Step
from tests.integration.cli.support import ENVIRONMENT
from tests.support.local_loads import load
from tests.support.patience import PATIENCE_S
from tests.support.topics import append, dataset_rows, log_rows

ROOT = Path(__file__).parents[3]
KILLS = [(Step.WRITING, 3), (Step.SYNCED, 0), (Step.COMMITTED, 0)]


@pytest.fixture(params=["delta", "iceberg"])
def table(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The address of a table; a catalog that nobody configured is below HOME."""
    if request.param == "delta":
        return str(tmp_path / "table")
    pytest.importorskip("pyiceberg")
    for name in ("HOME", "PYICEBERG_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    return "iceberg://lake/shop.orders"


def killed_load(log: Path, table: str, step: Step, task_count: int, *tier: str) -> None:
    words = [str(log), table, step.name, str(task_count), "local", *tier]
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.killed_load", *words],
        cwd=ROOT,
        env={**ENVIRONMENT, "HOME": os.environ["HOME"]},
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL


def offsets_by_others(table: str) -> list[tuple[int, int]]:
    """The partition and offset of each row, as polars finds them by the format's own library."""
    polars = pytest.importorskip("polars")
    if table.startswith("iceberg://"):
        from pyiceberg.catalog import load_catalog

        uri = f"sqlite:///{os.environ['HOME']}/.local/share/ottla/iceberg/lake/catalog.db"
        opened = load_catalog("lake", type="sql", uri=uri).load_table("shop.orders")
        found = polars.from_arrow(opened.scan().to_arrow())
    else:
        found = polars.scan_delta(table).collect()
    rows: list[tuple[int, int]] = found.select("partition", "offset").rows()
    return sorted(rows)


@pytest.mark.parametrize(("step", "task_count"), KILLS, ids=lambda one: getattr(one, "name", ""))
def test_a_killed_load_leaves_the_table_and_the_next_one_completes_it(
    tmp_path: Path, table: str, step: Step, task_count: int
) -> None:
    log = tmp_path / "log"
    append(log, {0: 50})
    load(str(log), "orders", table)
    before = dataset_rows(table)
    append(log, {0: 1000, 1: 600})
    killed_load(log, table, step, task_count)
    is_done = step is Step.COMMITTED
    expected = log_rows(log) if is_done else before
    assert offsets_by_others(table) == [row[:2] for row in expected]
    assert dataset_rows(table) == expected
    report = load(str(log), "orders", table)
    assert report.row_count == (0 if is_done else 1600)
    assert dataset_rows(table) == log_rows(log)
    assert offsets_by_others(table) == [row[:2] for row in log_rows(log)]
    vacuum(table, SystemClock(), retention_ms=0)
    opened = Table(table)
    in_data = {path for path in opened.sizes() if path.startswith("data/")}
    assert in_data == {file.path for file in opened.current_files()}
