"""Running `ottla` as a user does, in a process of its own."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2] / "src"
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(SOURCE)}


def run_ottla(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ottla", *map(str, arguments)]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=60, env=ENVIRONMENT, check=False
    )


@contextmanager
def serving(data_dir: Path, *arguments: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """`ottla serve` on a free port: its address and its process, stopped at the end."""
    command = [sys.executable, "-m", "ottla", "serve", "--data-dir", str(data_dir)]
    process = subprocess.Popen(
        [*command, "--listen", "127.0.0.1:0", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        ready = process.stdout.readline()
        assert ready.startswith("ready "), process.stderr.read()
        yield ready.split()[1], process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        process.wait(30)
        process.stdout.close()
        process.stderr.close()
