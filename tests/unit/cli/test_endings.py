"""How a command ends: with one line and an exit code, whatever goes wrong."""

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

import ottla
from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError, CorruptionError, UnknownNameError, UserError
from ottla.base.extras import install_command
from ottla.cli.endings import ended
from ottla.cli.terminal import deadline
from tests.integration.cli.support import ENVIRONMENT


def ending(error: BaseException) -> Result:
    @click.command()
    def command() -> None:
        with ended():
            raise error

    return CliRunner().invoke(command)


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (UserError("name a topic"), 2, "ottla: name a topic"),
        (
            UnknownNameError("topic", "ordres", ["orders", "books"]),
            1,
            "ottla: there is no topic ordres; did you mean orders?",
        ),
        (ApiError(ErrorCode.TOPIC_ALREADY_EXISTS, "there is one"), 1, "ottla: there is one"),
        (CorruptionError("a.log", 7, "torn"), 1, "ottla: a.log at byte 7: torn"),
        (
            OSError(errno.EACCES, "Permission denied", "a"),
            1,
            "ottla: a: Permission denied; give this user the right to it, or name another place",
        ),
        (OSError(errno.EISDIR, "Is a directory", "a"), 1, "ottla: a: Is a directory"),
        (
            ModuleNotFoundError("no", name="kazoo.client"),
            2,
            f"ottla: kazoo is not installed: {install_command('zookeeper')}",
        ),
        (
            KeyError("x"),
            1,
            "ottla: a fault of ours, KeyError: 'x'; OTTLA_TRACEBACK=1 shows the traceback",
        ),
        (KeyboardInterrupt(), 130, ""),
        (click.Abort(), 130, ""),
        (BrokenPipeError(), 0, ""),
    ],
)
def test_an_error_is_one_line_and_an_exit_code(error: BaseException, code: int, text: str) -> None:
    result = ending(error)
    assert (result.exit_code, result.output.strip()) == (code, text)


def test_the_time_of_a_command_can_be_limited() -> None:
    @click.command()
    def command() -> None:
        with ended(), deadline(0.01):
            signal.pause()

    result = CliRunner().invoke(command)
    assert result.exit_code == 124


def test_a_name_that_is_like_no_other_has_no_suggestion() -> None:
    assert UnknownNameError("topic", "zzz", ["orders"]).nearest == []
    known = ["__consumer_offsets", "orders"]
    assert str(UnknownNameError("topic", "zzz", known)) == "there is no topic zzz; there is orders"
    assert UnknownNameError("topic", "__consumer_offset", known).nearest == known[:1]


@pytest.mark.slow
def test_a_reader_that_closes_the_pipe_is_no_failure(tmp_path: os.PathLike[str]) -> None:
    with ottla.open(tmp_path) as log:
        log.create_topic("t")
        for _ in range(3000):
            log.append("t", b"x" * 100)
    ottla_command = f"{sys.executable} -m ottla"
    shell = f"set -o pipefail; {ottla_command} records {tmp_path} --topic t | head -1"
    done = subprocess.run(["bash", "-c", shell], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert len(done.stdout.splitlines()) == 1


@pytest.mark.slow
def test_no_encoding_and_no_closed_stream_ends_in_a_fault(tmp_path: Path) -> None:
    with ottla.open(tmp_path / "d") as log:
        log.create_topic("t")
        log.append("t", "tea ☕".encode())

    def end(words: str, **more: str) -> tuple[int, str]:
        command = f"{sys.executable} -m ottla {words}"
        done = subprocess.run(
            ["sh", "-c", command],
            capture_output=True,
            env={**ENVIRONMENT, **more},
            cwd=tmp_path,
            check=False,
        )
        return done.returncode, (done.stdout + done.stderr).decode("latin-1")

    code, text = end("log dump --deep d/t-0", PYTHONIOENCODING="latin-1")
    assert (code, "tea \\u2615" in text) == (0, True), text
    assert end("topics list d >&- 2>&-") == (0, "")
    if Path("/dev/full").exists():
        full = "ottla: standard output or a file: No space left on device; make room on the disk\n"
        assert end("topics list d > /dev/full") == (1, full)
    code, text = end("produce d t <&-")
    assert (code, text) == (2, "ottla: standard input is closed; name files to send\n")
