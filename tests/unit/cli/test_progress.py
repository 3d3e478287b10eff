"""Every command that may take longer than a second shows on a terminal that it goes on."""

import io
import shlex
from contextlib import redirect_stderr, redirect_stdout, suppress
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import pytest

import ottla
from ottla.cli import late_line
from ottla.cli.late_line import CountLine, LateLine
from ottla.cli.main import main
from ottla.cli.records import progress

RECORDS = 600


class Screen(io.StringIO):
    """A terminal that keeps what was drawn."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> Screen:
    """Standard error, beside a clock by which every look is ten seconds after the last one."""
    found = Screen()
    seconds = count(step=10)
    slow = SimpleNamespace(monotonic=lambda: float(next(seconds)))
    for module in (late_line, progress):
        monkeypatch.setattr(module, "time", slow)
    return found


@pytest.fixture
def _in_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A data directory and a file of lines."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("OTTLA_CONTEXTS", str(tmp_path / "none.toml"))
    with ottla.open("data") as log:
        log.create_topic("orders")
        compacted = {"cleanup.policy": "compact", "segment.bytes": "16384"}
        log.create_topic("accounts", config=compacted)
        log.append_many("orders", [b"v%d" % number for number in range(RECORDS)])
        for number in range(RECORDS):
            log.append("accounts", b"v" * 50, key=b"k%d" % (number % 5))
    Path("lines").write_text("line\n" * RECORDS)
    Path("lines.jsonl").write_text('{"value": "v"}\n' * RECORDS)


def run(command: str, screen: Screen) -> None:
    """Runs a command that prints into a file."""
    with (
        open("printed", "w") as out,
        redirect_stdout(out),
        redirect_stderr(screen),
        suppress(SystemExit),
    ):
        main(shlex.split(command))


LONG = {
    "log check data": "checking:",
    "log repair data": "looking for damage:",
    "log repair --copy-to new data": "looking for damage:",
    "compact data accounts": "compacting accounts",
    "snapshot create data first": "copying:",
    "export data orders -o written.jsonl": "exported",
    "import data orders lines.jsonl": "imported",
    "produce data orders lines": "produced",
    "consume data orders -n 500": "found 256 records",
    "records data orders": "found 512 records",
    "sql data 'select * from orders'": "reading the result",
}


@pytest.mark.slow
@pytest.mark.usefixtures("_in_place")
@pytest.mark.parametrize("command", LONG)
def test_a_command_that_may_take_long_shows_how_far_it_is(command: str, screen: Screen) -> None:
    run(command, screen)
    assert LONG[command] in screen.getvalue()


@pytest.mark.slow
@pytest.mark.usefixtures("_in_place")
def test_an_audit_and_a_restored_snapshot_show_how_far_they_are(screen: Screen) -> None:
    for command, words in (
        ("load data orders --into table --engine local", ""),
        ("audit data orders --table table", "comparing the rows and records of orders"),
        ("snapshot create data first", "copying:"),
        ("snapshot branch data first trial", "copying:"),
        ("snapshot restore data first --yes", "copying:"),
    ):
        drawn = len(screen.getvalue())
        run(command, screen)
        assert words in screen.getvalue()[drawn:], command


@pytest.mark.slow
@pytest.mark.usefixtures("_in_place")
@pytest.mark.parametrize(
    "command", ["mirror data other", "load data orders --into table --engine local"]
)
def test_what_reports_each_step_shows_its_line_where_it_reports(command: str) -> None:
    printed = Screen()
    with redirect_stdout(printed), suppress(SystemExit):
        main(command.split())
    assert "looking at" in printed.getvalue()


@pytest.mark.slow
@pytest.mark.usefixtures("_in_place")
@pytest.mark.parametrize("command", ["log check data -q", "consume data orders -q -n 500"])
def test_a_quiet_command_shows_nothing(command: str, screen: Screen) -> None:
    run(command, screen)
    assert screen.getvalue() == ""


def test_a_line_is_removed_at_the_end_and_while_something_is_printed(screen: Screen) -> None:
    with redirect_stderr(screen), CountLine("checking", "files", is_quiet=False) as line:
        line.show(1, 20)
        assert "checking: 1 of 20 files" in screen.getvalue()
        with line.aside():
            assert screen.getvalue().endswith("\r\x1b[K")
        line.show(2, 20)
        line.end()
        drawn = screen.getvalue()
        assert drawn.endswith("\r\x1b[K")
        line.show(3, 20)
    assert screen.getvalue() == drawn


def test_no_line_is_drawn_in_the_first_second(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Screen()
    monkeypatch.setattr(late_line, "time", SimpleNamespace(monotonic=lambda: 5.0))
    with redirect_stderr(screen), LateLine("checking", is_quiet=False) as line:
        line.say("checking more")
    assert screen.getvalue() == ""
