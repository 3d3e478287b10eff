"""Loads without Spark whose process is killed for real, and what comes after."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.base.clock import SystemClock
from ottla.loading.job import Step
from ottla.table import files as table_files
from ottla.tables.vacuum import vacuum
from tests.integration.cli.support import ENVIRONMENT
from tests.support.local_loads import load
from tests.support.patience import PATIENCE_S
from tests.support.topics import append, dataset_rows, log_rows

ROOT = Path(__file__).parents[3]
KILLS = [(Step.WRITING, 3), (Step.SYNCED, 0), (Step.COMMITTED, 0)]


def killed_load(log: Path, table: Path, step: Step, task_count: int) -> None:
    words = [str(log), str(table), step.name, str(task_count), "local"]
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.killed_load", *words],
        cwd=ROOT,
        env=ENVIRONMENT,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL


@pytest.mark.parametrize(("step", "task_count"), KILLS, ids=lambda one: getattr(one, "name", ""))
def test_a_killed_load_leaves_the_table_and_the_next_one_completes_it(
    tmp_path: Path, step: Step, task_count: int
) -> None:
    log, table = tmp_path / "log", tmp_path / "table"
    append(log, {0: 50})
    load(str(log), "orders", str(table))
    before = dataset_rows(table)
    append(log, {0: 1000, 1: 600})
    killed_load(log, table, step, task_count)
    is_done = step is Step.COMMITTED
    assert dataset_rows(table) == (log_rows(log) if is_done else before)
    report = load(str(log), "orders", str(table))
    assert report.row_count == (0 if is_done else 1600)
    assert dataset_rows(table) == log_rows(log)
    vacuum(str(table), SystemClock(), kept_ms=0)
    in_data = {str(path) for path in (table / "data").rglob("*.parquet")}
    assert in_data == set(table_files(str(table)))
