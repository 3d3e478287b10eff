"""A shell in which the lines of a page are run, as somebody does who has installed Ottla."""

import os
import subprocess
import sys
from pathlib import Path

from tests.integration.cli.support import ENVIRONMENT

PROGRAMS = {"ottla": "-m ottla", "python": ""}


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
            "XDG_CONFIG_HOME": str(directory / "home"),
            "LC_ALL": "C.UTF-8",
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
