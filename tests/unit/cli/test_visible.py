"""What a terminal obeys is escaped, unless it is the command's own; pipes get what there is."""

import io
import os
import pty
import sys
import termios
from collections.abc import Callable
from contextlib import suppress

import click
import pytest

from ottla.cli.main import _prepare_output
from ottla.cli.tables import print_rows
from ottla.cli.terminal import draw_over, new_console, new_table, print_json, progress_line
from ottla.cli.visible import own, styled, visible

HOSTILE = "\x1b[35m\x1b]0;owned\x07\r\b\x7f\x9b35m\u202eevil\u2066\u2028\udc9b"
SHOWN = r"\x1b[35m\x1b]0;owned\x07\r\x08\x7f\u009b35m\u202eevil\u2066\u2028\x9b"


def on_a_screen(write: Callable[[], object], encoding: str = "utf-8") -> bytes:
    """What a terminal is sent, on standard output and standard error."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, 200))
    with (
        open(theirs, "w", encoding=encoding) as output,
        open(os.dup(theirs), "w", encoding=encoding) as errors,
        pytest.MonkeyPatch.context() as streams,
    ):
        streams.setattr(sys, "stdout", output)
        streams.setattr(sys, "stderr", errors)
        _prepare_output()
        write()
        sys.stdout.flush()
        sys.stderr.flush()
    parts = []
    with suppress(OSError):  # The other end is closed.
        while part := os.read(ours, 65536):
            parts.append(part)
    os.close(ours)
    return b"".join(parts)


@pytest.mark.parametrize(
    "write",
    [
        lambda: print(HOSTILE),
        lambda: print(HOSTILE, file=sys.stderr),
        lambda: click.echo(HOSTILE),
        lambda: click.echo(HOSTILE, err=True),
        lambda: sys.stdout.writelines([HOSTILE, "\n"]),
        lambda: sys.stdout.buffer.write(HOSTILE.encode("utf-8", "surrogateescape") + b"\n"),
        lambda: new_console().print(HOSTILE),
    ],
)
def test_a_terminal_is_sent_no_control_character_of_what_is_printed(
    write: Callable[[], object],
) -> None:
    def write_all() -> None:
        write()
        sys.stdout.buffer.flush()

    assert on_a_screen(write_all) == SHOWN.encode() + b"\r\n"


def test_newlines_tabs_and_letters_of_all_scripts_are_printed_as_they_are() -> None:
    text = "a\tü 漢 👩‍🔬 עברית"
    assert on_a_screen(lambda: print(text)) == text.encode() + b"\r\n"


def test_a_character_that_is_written_in_two_pieces_is_one() -> None:
    def write() -> None:
        for piece in (b"\xe2\x82", b"\xac\xe2", b"x"):
            sys.stdout.buffer.write(piece)
        sys.stdout.buffer.write(b"\xc3")
        sys.stdout.buffer.flush()

    assert on_a_screen(write) == "€\\xe2x\\xc3".encode()


def test_in_an_older_encoding_a_byte_is_what_it_is_there() -> None:
    def write() -> None:
        sys.stdout.buffer.write("→\x9b".encode())
        sys.stdout.buffer.flush()
        print("\u202eé→")

    expected = b"\xe2\\u0086\\u0092\xc2\\u009b" + b"\\u202e\xe9\\u2192\r\n"
    assert on_a_screen(write, "latin-1") == expected


def test_the_commands_own_sequences_are_obeyed_and_nobody_elses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)

    def write() -> None:
        click.echo(styled(HOSTILE, bold=True))
        sys.stdout.flush()
        sys.stdout.buffer.write(own(b"\x1b[01;31m") + b"\x1b[0m\n")
        sys.stdout.buffer.flush()
        sys.stdout.flush()
        draw_over(HOSTILE)

    expected = f"\x1b[1m{SHOWN}\x1b[0m\r\n\x1b[01;31m\\x1b[0m\r\n\r\x1b[K{SHOWN}"
    assert on_a_screen(write) == expected.encode()


def test_cells_are_as_wide_as_what_is_shown_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "200")

    def write() -> None:
        print_rows(["a", "b"], [["\x1b[2J\n", "x"], ["long enough", "y"]])
        table = new_table("a", "b")
        table.add_row("\x1b[2J", "x")
        table.add_row("long enough", "y")
        new_console().print(table)

    lines = on_a_screen(write).decode().splitlines()
    assert [line.split() for line in lines if "[2J" in line] == [
        ["\\x1b[2J\\n", "x"],
        ["\\x1b[2J", "x"],
    ]
    marks = [line.index(mark, 9) for line in lines for mark in "xy" if mark in line[9:]]
    assert marks[0] == marks[1]
    assert marks[2] == marks[3]
    assert not any("\x1b" in line for line in lines)


def test_a_line_of_progress_shows_a_name_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "200")

    def write() -> None:
        with progress_line(f"[bold]{HOSTILE}") as line:
            line.say(f"[bold]{HOSTILE}", 1, 2)

    found = on_a_screen(write).decode()
    assert "[bold]\\x1b[35m\\x1b]0;owned" in found
    assert not any(one in found for one in ("\x1b]", "\x07", "\x9b", "\u202e"))


def test_a_pipe_gets_what_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    monkeypatch.setattr(sys, "stdout", taken)
    _prepare_output()
    context = click.Context(click.Command("any"))
    context.color = True
    with context:
        click.echo(HOSTILE)
        click.echo(styled(HOSTILE, bold=True))
        print_json({"name": HOSTILE})
        print_rows(["a"], [[HOSTILE]])
    taken.flush()
    assert isinstance(taken.buffer, io.BytesIO)
    raw = HOSTILE.encode("utf-8", "surrogateescape")
    assert taken.buffer.getvalue().count(raw) == 3
    assert own(b"\x1b[1m") == b"\x1b[1m"


def test_a_name_is_shown_in_one_line() -> None:
    assert visible("a\n\tb\\") == "a\\n\\tb\\"
