"""The line about a long command, on a real terminal: tmux draws it, however narrow it is."""

import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import ottla
from tests.integration.cli.support import ENVIRONMENT
from tests.support.patience import PATIENCE_S

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed"),
]


class Terminal:
    """A screen of its own, in which a shell runs."""

    def __init__(self, directory: Path, columns: int) -> None:
        self._socket = str(directory / "tmux")
        self._run("new-session", "-d", "-x", str(columns), "-y", "12", "-s", "s", "sh")
        self._run("set-option", "-g", "status", "off")

    def _run(self, *words: str) -> str:
        command = ["tmux", "-f", "/dev/null", "-S", self._socket, *words]
        environment = {**ENVIRONMENT, "TERM": "xterm", "PS1": "$ "}
        return subprocess.run(
            command, capture_output=True, text=True, check=True, env=environment
        ).stdout

    def type(self, line: str) -> None:
        self._run("send-keys", "-t", "s", "-l", line)
        self._run("send-keys", "-t", "s", "Enter")

    def lines(self) -> list[str]:
        """Of the screen, as it is now."""
        return [line for line in self._run("capture-pane", "-p", "-t", "s").splitlines() if line]

    def wait_for(self, is_there: Callable[[list[str]], bool]) -> list[str]:
        until = time.monotonic() + PATIENCE_S
        while not is_there(found := self.lines()):
            assert time.monotonic() < until, found
        return found

    def close(self) -> None:
        self._run("kill-server")


@pytest.fixture(params=[30, 100])
def terminal(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Terminal]:
    found = Terminal(tmp_path, request.param)
    yield found
    found.close()


def test_a_command_that_takes_longer_than_a_second_says_how_far_it_is(
    terminal: Terminal, tmp_path: Path
) -> None:
    with ottla.open(tmp_path / "d") as log:
        log.create_topic("t")
    script = tmp_path / "go"
    # The command ends when the test has seen enough, however slow the host is.
    (tmp_path / "goes-on").touch()
    script.write_text(
        f"clear; while [ -e {tmp_path}/goes-on ]; do yes | head -20; sleep 0.1; done |"
        f" {sys.executable} -m ottla produce {tmp_path}/d t\n"
    )
    terminal.type(f". {script}")
    # A line of its own that is redrawn where it is, and never runs over into the next one.
    (first,) = terminal.wait_for(lambda lines: lines[:1] != [] and "produced" in lines[0])
    (second,) = terminal.wait_for(lambda lines: lines[:1] not in ([], [first]))
    assert second.startswith("produced")
    (tmp_path / "goes-on").unlink()
    # The line of progress says how many too, but not in which time.
    found = terminal.wait_for(lambda lines: ") in " in "".join(lines))
    assert "".join(found).count("produced") == 1
