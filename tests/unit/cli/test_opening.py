"""The line of a long recovery: only on a terminal, and only when it takes its time."""

import io
from pathlib import Path

import pytest
from rich.console import Console

import ottla
from ottla.cli import opening
from ottla.cli.opening import OpeningLine
from ottla.testing import FakeClock


class Screen:
    """A terminal, or a file, that keeps what was drawn."""

    def __init__(self, *, is_terminal: bool = True) -> None:
        self.file = io.StringIO()
        self._is_terminal = is_terminal

    def __call__(self) -> Console:
        return Console(file=self.file, force_terminal=self._is_terminal, width=200)

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


def test_a_recovery_is_not_shown_where_errors_go_to_a_file() -> None:
    clock, screen = FakeClock(), Screen(is_terminal=False)
    line = OpeningLine(clock, screen)
    clock.advance(5000)
    line("recovering segment 1")
    line.end()
    assert screen.drawn.strip() == ""


def test_a_directory_that_a_crash_left_is_recovered_with_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ottla.open(tmp_path / "data") as log:
        log.create_topic("orders")
        log.append("orders", b"tea")
    (tmp_path / "data" / ".kafka_cleanshutdown").unlink()
    screen = Screen()
    monkeypatch.setattr(opening, "QUICK_MS", 0.0)
    monkeypatch.setattr(opening, "new_console", lambda stderr: screen())
    with opening.open_directories([str(tmp_path / "data")], {}) as log:
        assert log.topics() == {"orders": 1}
    assert "recovering" in screen.drawn
