"""Tests that npm packages bring with them, run by mocha."""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.compat.suites.suite import outcomes_of_junit


def absence() -> str | None:
    """Why no package's tests can be run, with the fix."""
    return None if shutil.which("npm") else "it needs node (20 or newer) and npm"


def install(scratch: Path, packages: Sequence[str]) -> Path:
    """Where npm has put the packages."""
    npm = ["npm", "install", "--no-save", "--no-audit", "--no-fund", "--loglevel=error"]
    subprocess.run([*npm, "--prefix", str(scratch), *packages], check=True, stdout=sys.stderr)
    return scratch / "node_modules"


def run_mocha(
    suite: Path, pattern: str, *, flags: Sequence[str] = (), settings: Mapping[str, str] = {}
) -> dict[str, str]:
    """Outcome by class and name of the tests of an installed package."""
    results = suite / "results.xml"
    mocha = ["node", "--no-deprecation", str(suite.parent / "mocha" / "bin" / "_mocha"), *flags]
    reporter = ["--reporter", "xunit", "--reporter-options", f"output={results}"]
    done = subprocess.run(
        [*mocha, *reporter, pattern],
        cwd=suite,
        env={**os.environ, **settings},
        check=False,
        capture_output=True,
        text=True,
        timeout=300,
    )
    if not results.exists():
        sys.exit((done.stdout + done.stderr)[-4000:])
    return outcomes_of_junit(results, with_class=True)
