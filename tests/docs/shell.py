"""A shell in which the lines of a page are run, as somebody does who has installed Ottla."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.integration.cli.support import ENVIRONMENT, QUICK_JAVA

ROOT = Path(__file__).parents[2]
PROGRAMS = {"ottla": "-m ottla", "python": "", "pytest": "-m pytest"}


class Shell:
    """In an empty directory, with `ottla` and `python` on the path and no settings of anybody's."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        programs = directory / "bin"
        programs.mkdir()
        for name, arguments in PROGRAMS.items():
            program = programs / name
            program.write_text(f'#!/bin/sh\nexec {sys.executable} {arguments} "$@"\n')
            program.chmod(0o755)
        self._environment = {
            **{name: text for name, text in ENVIRONMENT.items() if not name.startswith("OTTLA_")},
            "PATH": f"{programs}:{os.environ['PATH']}",
            "PYTHONPATH": os.pathsep.join([ENVIRONMENT["PYTHONPATH"], str(ROOT)]),
            "HOME": str(directory / "home"),
            "XDG_CONFIG_HOME": str(directory / "home"),
            "LC_ALL": "C.UTF-8",
            **QUICK_JAVA,
        }

    def run(self, line: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-o", "pipefail", "-c", line],
            capture_output=True,
            text=True,
            cwd=self._directory,
            env=self._environment,
            check=False,
            stdin=subprocess.DEVNULL,
        )

    def start(self, line: str) -> subprocess.Popen[str]:
        """A command that ends when it is stopped; returns when it has printed its first line."""
        with (self._directory / "errors.txt").open("w") as errors:
            process = subprocess.Popen(
                ["bash", "-c", f"exec {line}"],
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                cwd=self._directory,
                env=self._environment,
                stdin=subprocess.DEVNULL,
            )
        assert process.stdout is not None
        assert process.stdout.readline(), (self._directory / "errors.txt").read_text()
        return process

    def stop_all(self, started: list[subprocess.Popen[str]]) -> None:
        """Those, and the brokers that were started in the background."""
        for process in started:
            process.send_signal(signal.SIGINT)
        for process in started:
            process.communicate()
        for note in self._directory.rglob("ottla-owner"):
            self.run(f"ottla stop {note.parent}")
