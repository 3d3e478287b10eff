"""Running `ottla` as a user does, in a process of its own."""

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import ottla
from tests.support.patience import PATIENCE_S
from tests.support.ports import free_port

SOURCE = Path(ottla.__file__).resolve().parents[1]
"""Where the package lies that is tested: its sources, or a compiled copy (`make compiled`)."""
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(SOURCE)}
QUICK_JAVA = {"JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
"""For a process that has a Java machine for seconds only: to compile for hours ahead takes longer
than the test. Java says on stderr that it was told so."""

TIMEOUT_S = 600.0


def run_ottla(
    *arguments: str | Path, directory: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Runs a command to its end, in `directory` if one is given."""
    return _run(["-m", "ottla", *map(str, arguments)], directory)


def run_python(
    code: str, *, directory: Path, timeout_s: float = TIMEOUT_S
) -> subprocess.CompletedProcess[str]:
    """Runs a program as a user's script."""
    return _run(["-c", code], directory, timeout_s)


def _run(
    arguments: list[str], directory: Path | None, timeout_s: float = TIMEOUT_S
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        timeout=timeout_s,
        env=ENVIRONMENT,
        check=False,
        cwd=directory,
    )


@contextmanager
def serving(
    data_dir: Path | None, *arguments: str, set_limits: Callable[[], None] | None = None
) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """`ottla serve`: its address, where it may come back, and its process, stopped at the end.

    Without a directory the arguments say all. `set_limits` is called in the process before it is.
    """
    command = [sys.executable, "-m", "ottla", "serve"]
    if data_dir is not None:
        command += ["--data-dir", str(data_dir), "--listen", f"127.0.0.1:{free_port()}"]
    # Not a pipe: nobody reads it while the server runs, and a full one would stop it.
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            [*command, *arguments],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env=ENVIRONMENT,
            preexec_fn=set_limits,
        )
        assert process.stdout is not None
        try:
            ready = process.stdout.readline()
            errors.seek(0)
            assert ready.startswith("ready "), errors.read()
            yield ready.split()[1], process
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
            process.wait(PATIENCE_S)
            process.stdout.close()
