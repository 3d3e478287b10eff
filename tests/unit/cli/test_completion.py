"""Completion as shells ask for it."""

import fcntl
import os
import pty
import select
import shutil
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

import ottla
from ottla.cli.main import cli
from tests.integration.cli.support import ENVIRONMENT
from tests.support.patience import PATIENCE_S
from tests.unit.cli.administered import Administered


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is found must not depend on how fast the machine is."""
    monkeypatch.setattr("ottla.cli.completion.names.PATIENCE_S", 60.0)


def completed(*words: str) -> list[str]:
    """What follows the last word, as bash asks; `TYPE,VALUE` lines."""
    environment = {
        "_OTTLA_COMPLETE": "bash_complete",
        "COMP_WORDS": " ".join(["ottla", *words]),
        "COMP_CWORD": str(len(words)),
    }
    result = CliRunner().invoke(cli, [], prog_name="ottla", env=environment)
    return [line.partition(",")[2] for line in result.output.splitlines() if line]


def test_commands_are_completed_without_importing_any() -> None:
    assert "topics" in completed("t")
    assert completed("topics", "cr") == ["create"]
    assert "--background" in completed("serve", "--b")


def test_topics_and_groups_of_a_broker_are_completed(same_broker: Administered) -> None:
    assert completed("topics", "describe", same_broker.target, "") == ["books", "orders"]
    assert completed("topics", "describe", same_broker.target, "orders", "") == ["books"]
    assert completed("topics", "describe", "-b", same_broker.target, "o") == ["orders"]
    assert completed("groups", "describe", same_broker.target, "b") == ["billing"]


def test_topics_of_a_directory_at_rest_are_completed(tmp_path: Path) -> None:
    with ottla.open(tmp_path) as log:
        log.create_topic("orders")
    assert completed("records", str(tmp_path), "o") == ["orders"]


@pytest.mark.usefixtures("without_pauses")
def test_what_cannot_be_asked_completes_nothing(tmp_path: Path) -> None:
    assert completed("topics", "describe", str(tmp_path / "none"), "") == []
    assert completed("topics", "describe", "127.0.0.1:1", "") == []


BASH = """
source <("$1" -m ottla completion bash)
COMP_WORDS=(ottla top) COMP_CWORD=1
_ottla_completion ottla
printf '%s\\n' "${COMPREPLY[@]}"
"""
ZSH = """
autoload -Uz compinit && compinit -u -D
source <("$1" -m ottla completion zsh)
print -r -- ${_comps[ottla]}
"""
FISH = """
$argv[1] -m ottla completion fish | source
complete --do-complete "ottla topics cr"
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "setup"),
    [
        ("bash --norc -i", "source <(ottla completion bash)"),
        (
            "zsh -f -i",
            "autoload -Uz compinit && compinit -u -D; source <(ottla completion zsh)",
        ),
        ("fish --no-config -i", "ottla completion fish | source"),
    ],
)
def test_a_tab_completes_a_command_at_a_terminal(tmp_path: Path, words: str, setup: str) -> None:
    shell, *options = words.split()
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    ours, theirs = pty.openpty()
    path = f"{program_in(tmp_path)}:{ENVIRONMENT['PATH']}"
    with subprocess.Popen(
        [shell, *options],
        stdin=theirs, stdout=theirs, stderr=theirs,
        env={**ENVIRONMENT, "PATH": path, "TERM": "dumb"}, start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    ) as typed_at:  # fmt: skip
        os.write(ours, f'{setup}; echo RE""ADY\n'.encode())
        read_until(ours, b"READY")
        os.write(ours, b"ottla topics cre\t")
        read_until(ours, b"ottla topics create ")
        typed_at.kill()
    os.close(ours)
    os.close(theirs)


def program_in(folder: Path) -> Path:
    """A folder with the command `ottla`."""
    program = folder / "ottla"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m ottla "$@"\n')
    program.chmod(0o755)
    return folder


def read_until(terminal: int, wanted: bytes) -> None:
    seen = b""
    deadline = time.monotonic() + PATIENCE_S
    while wanted not in seen:
        ready, _, _ = select.select([terminal], [], [], max(0, deadline - time.monotonic()))
        assert ready, f"{wanted!r} is not in {seen!r}"
        seen += os.read(terminal, 65536)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shell", "options", "script", "expected"),
    [
        ("bash", ["--norc", "-c"], BASH, "topics"),
        ("zsh", ["-f", "-c"], ZSH, "_ottla_completion"),
        ("fish", ["--no-config", "-c"], FISH, "create"),
    ],
)
def test_the_script_works_in_the_shell(
    tmp_path: Path, shell: str, options: list[str], script: str, expected: str
) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    environment = {**ENVIRONMENT, "PATH": f"{program_in(tmp_path)}:{ENVIRONMENT['PATH']}"}
    name = [] if shell == "fish" else [shell]  # What `$0` is has no place among fish's words.
    done = subprocess.run(
        [shell, *options, script, *name, sys.executable],
        capture_output=True, text=True, env=environment, check=True, timeout=120,
    )  # fmt: skip
    assert expected in done.stdout.split(), done.stderr
