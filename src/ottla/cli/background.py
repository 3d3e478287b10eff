"""`ottla serve --background`: runs the command in a separate process, and returns once it is
ready.
"""

import os
import select
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import IO

import click

from ottla.base.errors import UserError
from ottla.cli.terminal import draw_over

LINES_SHOWN = 20
LINE_SIZE = 500
LOOK_S = 1.0
LOG_MODE = 0o644


class Background:
    """`ottla serve ARGUMENTS` as a process detached from this terminal, whose output is appended to
    `log_path` once it is ready.
    """

    def __init__(self, arguments: Sequence[str], log_path: Path) -> None:
        """Returns at once; raises `UserError`."""
        self._log_path = log_path
        with _open_log(log_path) as log:
            self._begins = log.tell()
            self._process = subprocess.Popen(
                [sys.executable, "-m", "ottla", "serve", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,  # Ctrl-C and the end of the terminal do not reach it
                text=True,
            )

    def ready_line(self) -> str:
        """Waits until it is ready, and then leaves it to itself, or has ended without: then it is
        empty.
        """
        assert self._process.stdout is not None
        with self._process.stdout as stdout:
            line = _ready_line(stdout, self._log_path, self._begins)
        if not line.startswith("ready "):
            return ""
        self._process.returncode = 0  # else Python warns of a process that nobody waits for
        return line.rstrip()

    def failure(self) -> tuple[int, str]:
        """The exit code of one that did not get ready, and the last lines of its log."""
        code = self._process.wait()
        with self._log_path.open("rb") as log:
            log.seek(self._begins)
            last = log.read().decode(errors="replace").splitlines()[-LINES_SHOWN:]
        return code or 1, "\n".join(last)

    def stop(self) -> None:
        self._process.terminate()
        with self._process:
            pass


def serve_in_background(arguments: Sequence[str], log_path: Path) -> None:
    """Starts `ottla serve ARGUMENTS` detached from this terminal, and waits until it is ready.

    Prints its ready line; its later output is appended to `log_path`. If it never gets ready, exits
    with its exit code. Ctrl-C until then stops it.
    """
    started = Background(arguments, log_path)
    try:
        ready = started.ready_line()
    except BaseException:
        started.stop()
        raise
    if ready:
        click.echo(f"{ready} log={log_path}")
        return
    code, last = started.failure()
    click.echo(last, err=True)
    sys.exit(code)


def _open_log(path: Path) -> IO[bytes]:
    """Others may have put a link there, to have lines written into a file of this user."""

    def opener(name: str, flags: int) -> int:
        return os.open(name, flags | os.O_NOFOLLOW | os.O_NONBLOCK, LOG_MODE)

    try:
        return open(path, "ab", opener=opener)
    except OSError as error:
        what = "it is a symbolic link; remove it" if path.is_symlink() else error.strerror
        raise UserError(f"{path}, the log of --background: {what}") from error


def _ready_line(stdout: IO[str], log_path: Path, begins: int) -> str:
    """Waits for the broker's first line; a terminal shows its latest log line meanwhile."""
    has_line = False
    while sys.stderr.isatty() and not select.select([stdout], [], [], LOOK_S)[0]:
        if words := _last_line(log_path, begins):
            has_line = True
            draw_over(words)
    if has_line:
        draw_over("")
    return stdout.readline()


def _last_line(path: Path, begins: int) -> str:
    with path.open("rb") as log:
        log.seek(max(begins, path.stat().st_size - LINE_SIZE))
        lines = log.read().decode(errors="replace").splitlines()
    return lines[-1] if lines else ""


def log_path_of(directory: str) -> Path:
    """Returns a path beside the directory, in which only Kafka's files belong."""
    path = Path(directory).absolute()
    return path.with_name(f"{path.name}.log")
