"""Commands whose Spark is killed under them: one line says so, and the next run completes it."""

import random
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

pytest.importorskip("pyspark")

import ottla
from ottla.mirror.directory_source import DirectorySource
from ottla.mirror.verify import Verification, VerifyOptions
from tests.crash.kills.feeding import feed
from tests.crash.kills.jobs import TOPIC
from tests.crash.kills.plan import workers
from tests.integration.cli.support import ENVIRONMENT, run_ottla

LIMIT_SECONDS = 400

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.long]


def java_of(command: subprocess.Popen[str]) -> psutil.Process | None:
    """Once it is Spark's, and not one that is only asked for its version: it has children."""
    # Some Java may end while it is looked at.
    with suppress(psutil.NoSuchProcess):
        for child in psutil.Process(command.pid).children():
            if child.name() == "java" and child.children():
                return child
    return None


def is_over(command: subprocess.Popen[str]) -> bool:
    """After a moment: there is nothing but time to look again by."""
    with suppress(subprocess.TimeoutExpired):
        command.wait(0.02)
    return command.returncode is not None


def kill_java(command: subprocess.Popen[str]) -> None:
    while not is_over(command):
        java = java_of(command)
        if java is not None:
            java.kill()
            return


def kill_all_workers(command: subprocess.Popen[str]) -> None:
    """Whatever they do: those that plan, and those of tasks."""
    while not is_over(command):
        java = java_of(command)
        for worker in workers(java.pid) if java is not None else []:
            with suppress(psutil.NoSuchProcess):
                worker.kill()


def commands(directory: Path) -> dict[str, list[str]]:
    log, table, copy = (str(directory / name) for name in ("log", "table", "copy"))
    return {
        "load": ["load", log, "--topic", TOPIC, "--into", table],
        "mirror": ["mirror", log, copy, "--engine", "spark"],
        "compact": ["compact", "--data-dir", log, "--topic", TOPIC, "--engine", "spark"],
    }


def assert_is_done(directory: Path, name: str) -> None:
    match name:
        case "load":
            table = ["--topic", TOPIC, "--table", directory / "table", "--all"]
            assert run_ottla("audit", directory / "log", *table).returncode == 0
        case "mirror":
            sides = [DirectorySource(str(directory / one)) for one in ("log", "copy")]
            assert Verification(*sides, VerifyOptions()).run().differences == []


@pytest.mark.timeout(3 * LIMIT_SECONDS)
@pytest.mark.parametrize("kill", [kill_java, kill_all_workers])
@pytest.mark.parametrize("name", ["load", "mirror", "compact"])
def test_a_command_whose_spark_is_killed_says_so_in_one_line(
    tmp_path: Path, name: str, kill: Callable[[subprocess.Popen[str]], None]
) -> None:
    with ottla.open(tmp_path / "log") as log:
        policy = "compact" if name == "compact" else "delete"
        config = {"segment.bytes": 8192, "cleanup.policy": policy}
        log.create_topic(TOPIC, partitions=2, config=config)
    feed(tmp_path / "log", 20_000, random.Random(1))
    arguments = [sys.executable, "-m", "ottla", *commands(tmp_path)[name]]
    given = {"stdout": subprocess.DEVNULL, "text": True, "env": ENVIRONMENT}
    with subprocess.Popen(arguments, stderr=subprocess.PIPE, **given) as command:
        kill(command)
        said = command.communicate(timeout=LIMIT_SECONDS)[1]
    assert command.returncode in (1, 2)
    assert len(said.splitlines()) == 1, said
    assert "run it again" in said
    again = subprocess.run(arguments, timeout=LIMIT_SECONDS, check=False, **given)
    assert again.returncode == 0
    assert_is_done(tmp_path, name)
