"""Follows the install section of README word for word, on each Python that `make wheels` found.

Every `pip install` runs in a virtual environment of its own, without what lies around; after it
`ottla --version` must answer, and a log must take a record. `pipx` and `uvx` come from pip.
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from wheels import ROOT, VERSIONS

TOOLS = ("pipx", "uv")
LARGE = "spark"
"""Installed for the first Python alone: PySpark is 450 MB."""

TRIAL = """
import ottla, tempfile
with ottla.open(tempfile.mkdtemp()) as log:
    log.create_topic("t")
    log.append("t", b"v")
    assert [one.value for one in log.read("t")] == [b"v"]
"""


def main(pythons: list[str]) -> None:
    readme = (ROOT / "README.md").read_text()
    section = readme.partition("## Install\n")[2].partition("\n## ")[0]
    lines = [one.partition("  #")[0].strip() for one in re.findall(r"^\$ (.*)$", section, re.M)]
    assert lines, "README has no install section"
    with tempfile.TemporaryDirectory() as place:
        for index, python in enumerate(pythons or VERSIONS):
            name = python if "python" in python else f"python{python}"
            if subprocess.run([name, "--version"], capture_output=True, check=False).returncode:
                continue
            for number, line in enumerate(lines):
                if line.startswith("make") or (index and LARGE in line):
                    continue
                _follow(line, name, Path(place) / f"{index}-{number}")


def _follow(line: str, python: str, place: Path) -> None:
    """Raises `SystemExit` with the output when a line, or what it installs, fails."""
    _run([python, "-m", "venv", str(place)], {})
    binaries = place / "bin"
    environment = {
        "PATH": f"{binaries}{os.pathsep}{os.environ['PATH']}",
        "VIRTUAL_ENV": str(place),
        "PIPX_HOME": str(place / "pipx"),
        "PIPX_BIN_DIR": str(binaries),
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }
    if "pip install" not in line:
        _run([str(binaries / "pip"), "install", "--quiet", *TOOLS], environment)
    _run(["bash", "-c", line], environment)
    if not line.startswith("uvx"):
        said = _run([str(binaries / "ottla"), "--version"], environment)
        is_pure = "COMPILE=0" in line or "none-any" in line
        assert ("not compiled" in said) == is_pure, f"{line}: {said}"
        print(f"{python}: {line}: {said}", end="", flush=True)
    if "pip install" in line and "pipx" not in line:
        _run([str(binaries / "python"), "-c", TRIAL], environment)


def _run(command: list[str], more: dict[str, str]) -> str:
    environment = {**os.environ, "PYTHONPATH": "", **more}
    done = subprocess.run(
        command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"{done.stdout}{done.stderr}\nfailed: {' '.join(command)}")
    return done.stdout


if __name__ == "__main__":
    main(sys.argv[1:])
