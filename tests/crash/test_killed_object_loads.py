"""Loads into an object store, killed at every step: nothing lost, nothing twice, nothing left."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.base.clock import SystemClock
from ottla.tables.maintenance.vacuum import vacuum
from ottla.tables.table import Table
from ottla.tables.writing.progress import Step
from tests.integration.cli.support import ENVIRONMENT
from tests.support.auditing import audited
from tests.support.local_loads import load
from tests.support.stores import environment_of, new_bucket, served
from tests.support.topics import append, dataset_rows, log_rows

pytest.importorskip("deltalake")
pytestmark = [pytest.mark.slow, pytest.mark.long]

ROOT = Path(__file__).resolve().parents[2]
LIMIT_SECONDS = 600


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    with served() as port:
        for name, value in environment_of(port).items():
            monkeypatch.setenv(name, value)
        yield f"{new_bucket(port)}/orders"


def killed_at(step: Step, log: Path, table: str) -> int:
    """The exit code of a process that kills itself there."""
    task_count = "1" if step is Step.WRITING else "0"
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "tests.support.killed_load",
            str(log),
            table,
            step.name,
            task_count,
            "local",
        ],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ENVIRONMENT['PYTHONPATH']}:{ROOT}"},
        stdout=subprocess.DEVNULL,
        timeout=LIMIT_SECONDS,
        check=False,
    )
    return done.returncode


@pytest.mark.timeout(3600)
def test_a_load_that_is_killed_at_any_step_is_seen_whole_or_not_at_all(
    tmp_path: Path, table: str
) -> None:
    append(tmp_path / "log", {0: 900, 1: 200})
    for step in (Step.CLAIMED, Step.SYNCED):
        assert killed_at(step, tmp_path / "log", table) == -signal.SIGKILL
        assert not Table(table).is_there()
    load(str(tmp_path / "log"), "orders", table)
    for step in Step:
        append(tmp_path / "log", {0: 900, 1: 200})
        code = killed_at(step, tmp_path / "log", table)
        # All tasks may be done before one of them is seen to be.
        assert code in ((0, -signal.SIGKILL) if step is Step.WRITING else (-signal.SIGKILL,))
        found = audited(tmp_path, table=table)
        assert found.differences == []
    assert found.rows == 1100 * (1 + len(Step)), "the last one was killed after its commit"
    assert load(str(tmp_path / "log"), "orders", table).nothing_new
    assert dataset_rows(table) == log_rows(tmp_path / "log")
    vacuum(table, SystemClock(), retention_ms=0)
    opened = Table(table)
    in_data = {path for path in opened.sizes() if path.startswith("data/")}
    assert in_data == {file.path for file in opened.current_files()}
