"""Tables whose driver or Java is killed at every step, and at random moments: nothing lost, nothing
twice. Each kill takes a session of Spark's own, so all of it is for `make crash`."""

import os
import random
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import ottla.table
from ottla.spark.load import Step
from ottla.spark.table import TableDirectory
from tests.cli.support import ENVIRONMENT
from tests.crash.table_worker import REMOVING
from tests.spark.auditing import audited
from tests.spark.topics import append, log_rows

pytest.importorskip("pyspark")

ROOT = Path(__file__).resolve().parents[2]
LIMIT_SECONDS = 180

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.long]


def work(directory: Path, seed: int, *wanted: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "tests.crash.table_worker", str(directory), str(seed)]
    environment = {**ENVIRONMENT, "PYTHONPATH": f"{ENVIRONMENT['PYTHONPATH']}:{ROOT}"}
    return subprocess.Popen(
        [*command, *wanted],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environment,
        cwd=ROOT,
    )


def done(directory: Path, *wanted: str) -> int:
    """Lets a worker do what it was asked for; returns its exit code."""
    with work(directory, 0, *wanted) as worker:
        worker.communicate(timeout=LIMIT_SECONDS)
    return worker.returncode


def assert_whole(directory: Path) -> None:
    """The table is as its log up to where it was loaded, and no row of it is there twice."""
    report = audited(directory)
    assert report.differences == []
    rows = ottla.table.dataset(str(directory / "table")).to_table(columns=["partition", "offset"])
    found = set(zip(rows["partition"].to_pylist(), rows["offset"].to_pylist(), strict=True))
    assert len(found) == rows.num_rows == report.rows


def assert_all_loaded(directory: Path) -> None:
    assert done(directory, "load") == 0
    assert_whole(directory)
    assert audited(directory).rows == len(log_rows(directory / "log"))
    assert done(directory, "vacuum") == 0
    in_data = {str(path) for path in (directory / "table" / "data").rglob("*.parquet")}
    assert in_data == set(ottla.table.files(str(directory / "table")))


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("victim", ["driver", "java"])
@pytest.mark.parametrize("action", ["load", "rerun", "compact", "vacuum"])
def test_a_kill_at_any_step_leaves_the_table_whole(
    tmp_path: Path, action: str, victim: str
) -> None:
    append(tmp_path / "log", {0: 900, 1: 200})
    assert done(tmp_path, "load") == 0
    for step in [REMOVING] if action == "vacuum" else [step.name for step in Step]:
        append(tmp_path / "log", {0: 130, 1: 20})
        for before in {"compact": ["load"], "vacuum": ["load", "compact"]}.get(action, []):
            assert done(tmp_path, before) == 0
        count = len(TableDirectory(str(tmp_path / "table")).entries())
        code = done(tmp_path, f"{action}:{step}:{victim}")
        assert_whole(tmp_path)
        if victim == "driver" and code == 0:
            assert step == Step.WRITING.name, "all tasks may be done before one is seen to be"
        elif victim == "driver":
            is_committed = len(TableDirectory(str(tmp_path / "table")).entries()) > count
            assert (code, is_committed) == (-signal.SIGKILL, step == Step.COMMITTED.name)
    assert_all_loaded(tmp_path)


@pytest.mark.timeout(3600)
def test_kills_at_random_moments_leave_the_table_whole(
    tmp_path: Path, crash_seconds: float
) -> None:
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    chance = random.Random(seed)
    append(tmp_path / "log", {0: 2000, 1: 300})
    assert done(tmp_path, "load") == 0
    deadline = time.monotonic() + crash_seconds
    rounds = 0
    while time.monotonic() < deadline or not rounds:
        append(tmp_path / "log", {0: chance.randrange(1, 2000), 1: chance.randrange(1, 100)})
        kill_some_time(tmp_path, seed + rounds, chance)
        assert_whole(tmp_path)
        rounds += 1
    print(f"{rounds} kills")
    assert_all_loaded(tmp_path)


def kill_some_time(directory: Path, seed: int, chance: random.Random) -> None:
    """Lets a worker work for a while, and kills it or its Java."""
    with work(directory, seed) as worker:
        assert worker.stdout is not None
        java = int(worker.stdout.readline().split()[1])
        # Nothing but the wait for an end: it is time, not an event, that the kill goes by.
        select.select([], [], [], chance.uniform(0.0, 8.0))
        if chance.random() < 0.3:
            os.kill(java, signal.SIGKILL)
        worker.kill()
