"""`ottla status` of a directory that a process holds without listening."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from ottla.base.files import OsFileSystem
from ottla.cli.serve.control import status_command
from ottla.cli.serve.serve_command import serve_command
from ottla.storage.directory.owner_note import Owner, write_owner_note


@pytest.fixture
def data(tmp_path: Path) -> Iterator[str]:
    """A directory that this process holds."""
    lock = OsFileSystem().lock(str(tmp_path / ".lock"))
    assert lock is not None
    yield str(tmp_path)
    lock.release()


def status(*arguments: str) -> str:
    answer = CliRunner().invoke(status_command, arguments)
    assert answer.exit_code == 0
    return answer.stdout


@pytest.mark.parametrize(
    ("command", "doing", "line"),
    [
        ("serve", "recovering orders-0; 2 of 9 logs left", "starting pid={pid} data={data}: "),
        (
            "mirror",
            "orders-0 (1 of 2): offset 5 of 9, 1 kB",
            "ottla mirror pid={pid} data={data}: ",
        ),
    ],
)
def test_a_start_and_a_mirror_say_how_far_they_are(
    data: str, command: str, doing: str, line: str
) -> None:
    write_owner_note(OsFileSystem(), data, Owner(pid=os.getpid(), command=command, doing=doing))
    assert status(data) == line.format(pid=os.getpid(), data=data) + doing + "\n"
    fields = json.loads(status(data, "--json"))
    assert (fields["command"], fields["doing"], fields["addresses"]) == (command, doing, [])


def test_a_process_that_leaves_no_note_is_in_use(data: str) -> None:
    assert status(data) == f"in use pid={os.getpid()} data={data}; it does not listen\n"
    assert json.loads(status(data, "--json"))["doing"] is None


@pytest.mark.parametrize("arguments", [["status"], ["stop", "data"], ["stop", "--background"]])
def test_serve_names_the_command_for_what_it_does_not_do(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    answer = CliRunner().invoke(serve_command, arguments)
    assert answer.exit_code == 2
    word = arguments[0]
    assert f"ottla {word} [DIR] is the command; a directory of that name is ./{word}" in (
        answer.stderr
    )
    assert not os.listdir(tmp_path)
