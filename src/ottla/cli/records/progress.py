"""Progress of many records: a line on a terminal after a second, and a summary or a JSON object."""

import sys
import time
from collections.abc import Mapping
from dataclasses import field
from typing import Any

import click

from ottla.base.texts import size_text
from ottla.base.values import dataclass
from ottla.cli.terminal import counted, draw_over, print_json

FIRST_S = 1.0
STEP_S = 0.2
LOOK_EVERY = 256
WIDTH = 24

report_option = click.option(
    "--json",
    "--json-report",
    "as_json",
    is_flag=True,
    help="Print one JSON object of what was done.",
)
"""Options of commands that move records; `produce` has only the second name, since its `--json`
is an input format.
"""


@dataclass(slots=True)
class Flow:
    """Counts records and bytes. The line is shown only if standard error is a terminal."""

    verb: str
    is_quiet: bool = False
    as_json: bool = False
    """Whether the summary is an object on standard output."""
    total: int | None = None
    """Total number of records, if known."""
    count: int = 0
    size: int = 0
    _began: float = field(default_factory=time.monotonic)
    _shown: float = 0.0
    _looked: int = 0

    def add(self, size: int, count: int = 1) -> None:
        self.count += count
        self.size += size
        if self.count - self._looked >= LOOK_EVERY:
            self._looked = self.count
            self.show()

    def show(self) -> None:
        """Draws the line again, when it is due."""
        now = time.monotonic()
        if self.is_quiet or now - self._began < FIRST_S or now - self._shown < STEP_S:
            return
        if sys.stderr.isatty():
            self._shown = now
            draw_over(f"{self._bar()}{self.text()}")

    def _bar(self) -> str:
        if not self.total:
            return ""
        filled = min(WIDTH, WIDTH * self.count // self.total)
        return f"[{'#' * filled}{'.' * (WIDTH - filled)}] "

    def text(self) -> str:
        """Example: produced 1,000 records (12.3 KiB) in 0.5 s."""
        seconds = time.monotonic() - self._began
        records = counted(f"{self.count:,}", "record")
        return f"{self.verb} {records} ({size_text(self.size)}) in {seconds:.1f} s"

    def clear(self) -> None:
        """Removes the line."""
        if self._shown:
            draw_over("")

    def finish(self, where: str, fields: Mapping[str, Any]) -> None:
        """Prints the summary: a sentence on standard error, or with `fields` an object of
        `--json`.
        """
        if not self.as_json:
            self.stop(where)
            return
        self.clear()
        seconds = round(time.monotonic() - self._began, 3)
        print_json({**fields, "records": self.count, "size": self.size, "seconds": seconds})

    def stop(self, where: str) -> None:
        """Prints the summary if a command ends early: a sentence in any case."""
        self.clear()
        if not self.is_quiet:
            click.echo(f"{self.text()}{where}", err=True)
