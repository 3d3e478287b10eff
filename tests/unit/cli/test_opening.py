"""The line of a long recovery: only on a terminal, and only when it takes its time."""

import io
import sys
from pathlib import Path

import pytest
from rich.console import Console

import ottla
from ottla.cli import opening
from ottla.cli.opening import OpeningLine
from ottla.cli.terminal import ProgressLine, progress_line
from ottla.testing import FakeClock


class Screen:
    """A terminal that keeps what was drawn."""

    def __init__(self) -> None:
        self.file = io.StringIO()

    def __call__(self, words: str) -> ProgressLine:
        return ProgressLine(Console(file=self.file, force_terminal=True, width=200), words)

    @property
    def drawn(self) -> str:
        return self.file.getvalue()


def test_a_recovery_of_more_than_a_second_shows_its_steps_until_it_ends() -> None:
    clock, screen = FakeClock(), Screen()
    line = OpeningLine(clock, screen)
    line("recovering segment 0")
    assert screen.drawn == ""
    clock.advance(1000)
    line("recovering segment 1")
    assert "recovering segment 1" in screen.drawn
    line.end()
    shown = screen.drawn
    line("closing")
    assert screen.drawn == shown


def test_a_recovery_is_not_shown_where_errors_go_to_a_file_and_rich_is_not_imported(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "rich.console", None)
    clock = FakeClock()
    line = OpeningLine(clock, progress_line)
    clock.advance(5000)
    line("recovering segment 1")
    line.end()
    assert capsys.readouterr() == ("", "")


def test_a_directory_that_a_crash_left_is_recovered_with_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ottla.open(tmp_path / "data") as log:
        log.create_topic("orders")
        log.append("orders", b"tea")
    (tmp_path / "data" / ".kafka_cleanshutdown").unlink()
    screen = Screen()
    monkeypatch.setattr(opening, "QUICK_MS", 0.0)
    monkeypatch.setattr(opening, "progress_line", screen)
    with opening.open_directories([str(tmp_path / "data")], {}) as log:
        assert log.topics() == {"orders": 1}
    assert "recovering" in screen.drawn
