"""What commands share of a terminal."""

import io
import signal

import pytest

from ottla.base.errors import UserError
from ottla.cli.terminal import (
    ProgressLine,
    StopAskedError,
    Stopping,
    parse_seconds,
    parse_size,
)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("5", 5),
        ("5B", 5),
        ("500k", 500_000),
        ("1.5M", 1_500_000),
        ("4Mi", 4 << 20),
        ("1GiB", 1 << 30),
    ],
)
def test_sizes_are_decimal_unless_they_say_otherwise(text: str, size: int) -> None:
    assert parse_size("--size", text) == size


@pytest.mark.parametrize("text", ["", "0", "-1", "10 apples", "1.2.3k", "k"])
def test_what_is_no_size_is_refused_with_the_options_name(text: str) -> None:
    with pytest.raises(UserError, match="--size takes a size such as"):
        parse_size("--size", text)


@pytest.mark.parametrize(
    ("text", "seconds"), [("2", 2), ("500ms", 0.5), ("1.5m", 90), ("1h", 3600)]
)
def test_durations_are_seconds_unless_they_say_otherwise(text: str, seconds: float) -> None:
    assert parse_seconds("--every", text) == seconds


def test_the_first_signal_asks_for_the_end_and_the_second_ends() -> None:
    before = signal.getsignal(signal.SIGINT)
    with Stopping() as stop:
        assert not stop.wait(0)
        signal.raise_signal(signal.SIGINT)
        assert stop.is_set()
        with pytest.raises(StopAskedError):
            stop.sleep(3600)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


def test_every_signal_calls_what_stops_the_process() -> None:
    calls: list[int] = []
    with Stopping(lambda: calls.append(1)):
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)
    assert calls == [1, 1]


def test_a_line_of_progress_says_what_it_counts() -> None:
    from rich.console import Console

    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=80)
    with ProgressLine(console, "begin", noun="records") as line:
        line.say("produce", 5000, 20_000)
    assert "5,000/20,000 records" in screen.getvalue()
