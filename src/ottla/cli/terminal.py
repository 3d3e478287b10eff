"""What commands share for the terminal: tables, progress, sizes, durations, signals, JSON."""

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

import click

from ottla.base.errors import OttlaError, UserError
from ottla.base.texts import SIZE_UNITS, UNITS_MS, amount_of
from ottla.cli.screen import ScreenContext, in_plain_words
from ottla.cli.visible import VisibleText, escaped, own_error, visible

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress
    from rich.segment import Segment
    from rich.table import Table
    from rich.text import Text as RichText

WIDTH = 200
LOOK_S = 0.1

_SIZE_UNITS = {"": 1, **SIZE_UNITS}
_UNITS_MS = {"": 1000, **UNITS_MS}
_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\\": "\\\\"}


# What is printed


def print_json(fields: Mapping[str, Any]) -> None:
    """Prints one line of `--json`."""
    click.echo(json.dumps(fields))


def report_skipped(damage: object) -> None:
    """Reports on standard error what `--skip-damaged` skips."""
    click.echo(f"skipped: {damage}", err=True)


def report_remark(text: str) -> None:
    """Prints a remark on standard error."""
    click.echo(text, err=True)


def new_console(*, stderr: bool = False, is_quiet: bool = False) -> "Console":
    """A console for plain text: no markup is interpreted, and no line is wrapped; one that
    `is_quiet` prints nothing.
    """
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    # Rich's own escape sequences are obeyed, and no text's.
    is_screen = isinstance(stream, VisibleText)

    class Screen(Console):
        def on_broken_pipe(self) -> None:
            """Handles a reader that has enough, which is not a failure; rich would exit with 1."""
            raise BrokenPipeError

        def render_str(self, text: str, **more: Any) -> "RichText":
            """Returns a text as wide as what is shown of it."""
            return super().render_str(escaped(text) if is_screen else text, **more)

        def render(self, *given: Any, **more: Any) -> "Iterable[Segment]":
            """Yields what is printed of a text, a table or a line of progress."""
            for one in super().render(*given, **more):
                yield one._replace(text=escaped(one.text)) if is_screen and not one.control else one

    # Output that is not a terminal has no width, so nothing is cut.
    width = None if stream.isatty() else WIDTH
    # With NO_COLOR rich only drops colours; bold and dim must be dropped too.
    colors: Literal["auto"] | None = None if os.environ.get("NO_COLOR") else "auto"
    return Screen(
        stderr=stderr,
        file=stream.obeyed if isinstance(stream, VisibleText) else None,
        quiet=is_quiet,
        width=width,
        color_system=colors,
        soft_wrap=True,
        highlight=False,
        markup=False,
    )


def new_table(*columns: str) -> "Table":
    """An empty table with a rule below its headings."""
    from rich import box
    from rich.table import Table

    return Table(*columns, box=box.SIMPLE_HEAD, pad_edge=False, caption_justify="left")


def progress_line(words: str, *, noun: str = "tasks", is_shown: bool = True) -> "ProgressLine":
    """A line on standard error, if that is a terminal."""
    is_screen = is_shown and sys.stderr.isatty()
    return ProgressLine(new_console(stderr=True) if is_screen else None, words, noun=noun)


class ProgressLine:
    """One line that shows the current activity; nothing if the output is not a terminal."""

    def __init__(self, console: "Console | None", words: str, *, noun: str = "tasks") -> None:
        """`noun` names what is counted. Without a console nothing is shown."""
        self._noun = noun
        is_shown = console is not None and console.is_terminal and not console.quiet
        self._bar = _new_bar(console) if console is not None and is_shown else None
        if self._bar is not None:
            self._line = self._bar.add_task(visible(words), total=None, counts="")

    def __enter__(self) -> "ProgressLine":
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def say(self, words: str, done: int = 0, total: int | None = None) -> None:
        """`total` is the total count, `None` if unknown."""
        if self._bar is None:
            return
        counts = f"{done:,}/{total:,} {self._noun}" if total else ""
        self._bar.update(
            self._line,
            description=visible(words),
            completed=done,
            total=total or None,
            counts=counts,
        )


def _new_bar(console: "Console") -> "Progress":
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.fields[counts]}"),
        TimeElapsedColumn(),
    )
    return Progress(*columns, console=console, transient=True)


# Texts


def counted(count: object, noun: str) -> str:
    """Examples: 1 batch, 2 batches."""
    if str(count) == "1":
        return f"1 {noun}"
    return f"{count} {noun}{'es' if noun.endswith('ch') else 's'}"


def offsets_text(first: int | None, last: int) -> str:
    if first == last:
        return str(last)
    return f"{'?' if first is None else first}–{last}"


def text_of_bytes(value: bytes | None) -> str:
    """Quoted text, with escapes for what is not printable or not UTF-8; `null` for none.

    As in Python, quotes within the text are not escaped if the other kind can enclose it.
    """
    if value is None:
        return "null"
    text = value.decode("utf-8", "surrogateescape")
    quote = "'" if '"' in text and "'" not in text else '"'
    return quote + "".join(map(_escape, text)).replace(quote, f"\\{quote}") + quote


def _escape(character: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    if character.isprintable():
        return character
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:  # A byte that is not UTF-8.
        return f"\\x{code - 0xDC00:02x}"
    return "".join(f"\\x{byte:02x}" for byte in character.encode("utf-8", "surrogatepass"))


# Options


def with_options(*options: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Adds shared options and arguments, in this order."""

    def add(command: Any) -> Any:
        for one in reversed(options):
            command = one(command)
        return command

    return add


def parse_size(option: str, text: str) -> int:
    """Bytes: `k`, `M`, `G` are powers of 1000, `Ki`, `Mi`, `Gi` of 1024. Raises `UserError`."""
    size = round(amount_of(text.strip().lower().removesuffix("b"), _SIZE_UNITS) or 0)
    if size <= 0:
        raise UserError(f"{option} takes a size such as 500k, 128M or 1Gi, not {text!r}")
    return size


def parse_seconds(option: str, text: str) -> float:
    """Parses a duration with or without a unit as seconds; raises `UserError`."""
    ms = amount_of(text, _UNITS_MS)
    if not ms:
        raise UserError(f"{option} takes a time like 500ms, 30s or 5m, not {text!r}")
    return ms / 1000


# Commands


class ExampleCommand(click.Command):
    """A command whose help begins with examples, and ends with the options that all commands
    share.
    """

    context_class = ScreenContext
    SHARED = frozenset(
        ("--bootstrap", "--data-dir", "--context", "--client", "--client-config", "--timeout",
         "--json", "--quiet", "--help")
    )  # fmt: skip

    def __init__(self, *args: Any, examples: Sequence[str] = (), **more: Any) -> None:
        super().__init__(*args, **more)
        self.examples = tuple(examples)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        with in_plain_words():
            return super().parse_args(ctx, args)

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for line in self.examples:
            formatter.write(f"$ {line}\n")
        if self.examples:
            formatter.write_paragraph()
        super().format_help(ctx, formatter)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        own: list[tuple[str, str]] = []
        shared: list[tuple[str, str]] = []
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx) if isinstance(param, click.Option) else None
            if record is not None:
                (shared if self.SHARED & {*param.opts} else own).append(record)
        for title, records in (("Options", own), ("Shared options", shared)):
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)


yes_option = click.option(
    "--yes", "-y", "is_confirmed", is_flag=True, help="Do not ask for confirmation."
)


def confirm(question: str, *, is_confirmed: bool) -> None:
    """Asks for confirmation at a terminal only; a no exits with 1."""
    if is_confirmed or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return
    if not click.confirm(question, err=True):
        click.echo("nothing was changed", err=True)
        sys.exit(1)


def draw_over(text: str) -> None:
    """Redraws a line in place on standard error, cut to the terminal's width."""
    try:
        width = os.get_terminal_size(sys.stderr.fileno()).columns
    except (OSError, ValueError):
        width = WIDTH
    click.echo(own_error("\r\x1b[K") + visible(text)[: max(1, width - 1)], nl=False, err=True)


# Signals


class DeadlinePassedError(KeyboardInterrupt):
    """The time of `--timeout` is over: interrupts like Ctrl-C."""


@contextmanager
def only_logged_from(level: int, name: str) -> Iterator[None]:
    """Drops messages of a logger below the level, since the command reports them itself."""
    import logging

    logger = logging.getLogger(name)
    before = logger.level
    logger.setLevel(level)
    try:
        yield
    finally:
        logger.setLevel(before)


@contextmanager
def deadline(seconds: float | None) -> Iterator[None]:
    """Raises `DeadlinePassedError` in the main thread when the time is over; `None`: never."""
    if seconds is None:
        yield
        return

    def interrupt(number: int, frame: object) -> None:
        raise DeadlinePassedError

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


class StopAskedError(OttlaError):
    """A user or a supervisor asked the process to stop."""


class Stopping:
    """SIGTERM and SIGINT request a stop; a second one ends the process at once.

    With `on_stop`, which stops what the process does, a second one changes nothing.
    """

    def __init__(self, on_stop: Callable[[], None] | None = None) -> None:
        self._on_stop = on_stop
        # A flag, not an event: a handler must not wait for a lock that the main thread holds.
        self._is_set = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> "Stopping":
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._stop)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def install(self) -> None:
        """Handles the signals for as long as the process runs."""
        self.__enter__()

    def set(self) -> None:
        """Requests a stop, from any thread."""
        self._is_set = True

    def is_set(self) -> bool:
        """Whether a stop was requested."""
        return self._is_set

    def wait(self, seconds: float) -> bool:
        """Waits; returns whether a stop was requested."""
        end = time.monotonic() + seconds
        while not self._is_set and (left := end - time.monotonic()) > 0:
            time.sleep(min(LOOK_S, left))
        return self._is_set

    def sleep(self, seconds: float) -> None:
        """Like `time.sleep`; raises `StopAskedError`."""
        if self.wait(seconds):
            raise StopAskedError

    def check(self) -> None:
        """Raises `StopAskedError` if a stop was requested."""
        if self._is_set:
            raise StopAskedError

    def _stop(self, number: int, frame: object) -> None:
        self._is_set = True
        if self._on_stop is not None:
            self._on_stop()
        else:
            signal.signal(number, signal.default_int_handler)
