"""The path of a new user: the first commands of the README, in a clone and an environment."""

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.docs.howto import fits, steps_of
from tests.integration.cli.support import ENVIRONMENT

ROOT = Path(__file__).resolve().parents[2]
SECTION = (ROOT / "README.md").read_text().partition("## A first result")[2].partition("\n## ")[0]
MEASURED = re.compile(r"([\d.]+) s to clone and install, .* ([\d.]+) s for these three commands")

STARTS = 60
"""How many starts of a Python that imports what the commands do the three commands may take."""


@pytest.mark.slow
def test_the_first_record_query_and_table_come_from_a_clone_as_the_readme_shows(
    tmp_path: Path,
) -> None:
    """Packages are those of this environment: what a download takes says nothing of Ottla."""
    for needed in ("duckdb", "deltalake", "setuptools", "mypy"):
        pytest.importorskip(needed)
    if not (ROOT / ".git").exists() or shutil.which("git") is None:
        pytest.skip("this is no clone")
    clone, environment, install = re.findall(r"^\$ (.*)$", SECTION, re.M)[:3]
    run(
        "bash", "-c", clone.replace("REPOSITORY", str(ROOT)).replace("&& cd ottla", ""), at=tmp_path
    )
    place = tmp_path / "ottla"
    run("bash", "-c", environment.replace("python3", sys.executable), at=place)
    (packages,) = (place / ".venv").glob("lib/python*/site-packages")
    # Before those of the environment itself, whose setuptools may be too old.
    first = f"import sys; sys.path.insert(0, {str(others(tmp_path))!r})"
    (packages / "others.pth").write_text(first)
    offline = install.replace("pip install", "pip install -q --no-deps --no-build-isolation")
    run("bash", "-c", f". .venv/bin/activate && {offline}", at=place)
    began_s = time.perf_counter()
    for step in steps_of(SECTION):
        printed = run("bash", "-c", f". .venv/bin/activate && {step.line}", at=place)
        assert fits(step.shown, printed.splitlines()), printed
    took_s = time.perf_counter() - began_s
    assert took_s < STARTS * start_s(place), "the first minute has become long"
    assert [float(one) > 0 for one in MEASURED.findall(SECTION)[0]] == [True, True]


def others(place: Path) -> Path:
    """A folder that has all packages here but Ottla, which is to be the clone's."""
    folder = place / "packages"
    folder.mkdir()
    here = Path(pytest.__file__).parents[1]
    for one in here.iterdir():
        if "ottla" not in one.name:
            (folder / one.name).symlink_to(one)
    return folder


def start_s(place: Path) -> float:
    began_s = time.perf_counter()
    run(".venv/bin/python", "-c", "import duckdb, deltalake, pyarrow", at=place)
    return time.perf_counter() - began_s


def run(*command: str, at: Path) -> str:
    """Returns what it prints; fails where it does."""
    environment = {
        name: text
        for name, text in ENVIRONMENT.items()
        if name not in ("PYTHONPATH", "OTTLA_TARGET", "OTTLA_CONTEXT")
    }
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        cwd=at,
        env=environment | {"LC_ALL": "C.UTF-8", "HOME": str(at), "PATH": os.environ["PATH"]},
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
