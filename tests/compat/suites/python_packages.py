"""Test suites that come in source distributions of Python packages, and pytest to run them with."""

import os
import subprocess
import sys
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.compat.suites.suite import outcomes_of_junit

PIP = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check")
PYTEST = (
    sys.executable,
    "-m",
    "pytest",
    "-p",
    "no:randomly",
    "-q",
    "--tb=no",
    "--timeout=90",
    "--show-capture=no",
)


def unpack_source(requirement: str, scratch: Path) -> Path:
    """The folder with the source distribution of `NAME==VERSION`."""
    folder = scratch / requirement
    subprocess.run(
        [*PIP, "download", "--no-deps", "--no-binary", ":all:", "--dest", str(folder), requirement],
        check=True,
    )
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")
    return archive.with_name(archive.name.removesuffix(".tar.gz"))


def install(requirements: Sequence[str], target: Path) -> None:
    """Puts packages into a folder of their own, without what they ask for in turn."""
    subprocess.run(
        [*PIP, "install", "--no-deps", "--target", str(target), *requirements], check=True
    )


def run_pytest(
    suite: Path, words: Sequence[str], variables: Mapping[str, str], *, with_class: bool = False
) -> dict[str, str]:
    """Outcome by test. The package in the suite's folder comes before one that is installed."""
    results = suite / "results.xml"
    path = os.pathsep.join(filter(None, [str(suite), variables.get("PYTHONPATH", "")]))
    with (suite / "pytest.log").open("w") as log:
        subprocess.run(
            [*PYTEST, f"--junitxml={results}", *words],
            cwd=suite,
            env={**os.environ, **variables, "PYTHONPATH": path},
            check=False,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    if not results.exists():
        sys.exit((suite / "pytest.log").read_text()[-4000:])
    return outcomes_of_junit(results, with_class=with_class)
