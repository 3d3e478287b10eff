"""Follows the install section of README and the tutorial's word for word, and tries the wheel of
each Python.

Every line is run by the first Python that is there, in a clone and a virtual environment of its
own; `pipx` and `uvx` come from pip. Of the wheels in dist/ each Python then gets its own and the
pure one. After an installation `ottla --version` must answer and a log must take a record. Most
lines compile the broker on one core: so one is followed on each.
"""

import os
import re
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from wheels import DIST, ROOT, VERSIONS, find_python

TOOLS = ("pipx", "uv")
"""Their commands begin so too."""

LEFT = "left_by_an_earlier_build"
"""A module that must not be packed again."""

TRIAL = f"""
import importlib.util, ottla, tempfile
assert importlib.util.find_spec("ottla.{LEFT}") is None
with ottla.open(tempfile.mkdtemp()) as log:
    log.create_topic("t")
    log.append("t", b"v")
    assert [one.value for one in log.read("t")] == [b"v"]
"""


def main(names: list[str]) -> None:
    pythons = [python for one in names or VERSIONS if (python := find_python(one))]
    if not pythons:
        sys.exit(f"none of these Pythons is here: {', '.join(names or VERSIONS)}")
    lines = [(pythons[0], line) for line in (*_readme(), *_tutorial())]
    lines += [(python, f"pip install {wheel}") for python in pythons for wheel in _wheels(python)]
    with (
        tempfile.TemporaryDirectory() as place,
        ThreadPoolExecutor(max_workers=os.cpu_count()) as pool,
    ):
        running = [
            pool.submit(_follow, line, python, Path(place) / str(number))
            for number, (python, line) in enumerate(lines)
        ]
        for one in running:
            one.result()


def _readme() -> list[str]:
    """The install section's commands; `make wheels` has been run, for its results are tried."""
    section = (ROOT / "README.md").read_text().partition("## Install\n")[2].partition("\n## ")[0]
    lines = [one.partition("  #")[0].strip() for one in re.findall(r"^\$ (.*)$", section, re.M)]
    assert lines, "README has no install section"
    return [line for line in lines if not line.startswith("make")]


def _tutorial() -> list[str]:
    """The line that installs, in an environment as the line before it makes one."""
    lines = re.findall(r"^\$ (pip install .*)$", (ROOT / "docs/tutorial.md").read_text(), re.M)
    assert lines, "the tutorial does not install"
    return lines


def _wheels(python: str) -> list[str]:
    """Paths below the root: the compiled wheel for this Python, and the one for all."""
    tag = _run(python, "-c", "import sys; print('cp%d%d' % sys.version_info[:2])").strip()
    (compiled,) = DIST.glob(f"*-{tag}-{tag}-*.whl")
    (pure,) = DIST.glob("*-none-any.whl")
    return [f"dist/{one.name}" for one in (compiled, pure)]


def _follow(line: str, python: str, place: Path) -> None:
    """Raises `SystemExit` with the output when a line, or what it installs, fails."""
    started = time.monotonic()
    clone, binaries = place / "ottla", place / "venv" / "bin"

    def run(*command: str) -> str:
        environment = {
            "MYPYC_OPT_LEVEL": "0",  # whether it installs is tried, not how fast it runs
            "PATH": f"{binaries}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": "",
            "VIRTUAL_ENV": str(binaries.parent),
            "PIPX_HOME": str(place / "pipx"),
            "PIPX_BIN_DIR": str(binaries),
        }
        return _run(*command, cwd=clone, **environment)

    _run("git", "clone", "--quiet", str(ROOT), str(clone))
    (clone / "dist").symlink_to(DIST)
    (clone / "build" / "lib" / "ottla").mkdir(parents=True)
    (clone / "build" / "lib" / "ottla" / f"{LEFT}.py").touch()
    _run(python, "-m", "venv", str(binaries.parent))
    if "pip install" not in line or line.startswith("pipx"):
        run("pip", "install", "--quiet", *TOOLS)
    said = run("bash", "-c", line)
    if not line.startswith("uvx"):
        said = run("ottla", "--version")
    is_pure = "COMPILE=0" in line or "none-any" in line
    if ("not compiled" in said) != is_pure:
        sys.exit(f"{line}: {said}")
    print(f"{line}: {said.strip()}, {time.monotonic() - started:.0f} s", flush=True)
    if not line.startswith(TOOLS):
        run("python", "-c", TRIAL)


def _run(*command: str, cwd: Path = ROOT, **more: str) -> str:
    """What it prints; `SystemExit` with all that it said when it fails."""
    done = subprocess.run(
        command, env={**os.environ, **more}, cwd=cwd, capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"{done.stdout}{done.stderr}\nfailed: {' '.join(command)}")
    return done.stdout


if __name__ == "__main__":
    main(sys.argv[1:])
