"""What goes by while many records do: a line on a screen after a second, and a summary."""

import sys
import time
from dataclasses import dataclass, field

import click

from ottla.base.texts import size_text
from ottla.cli.terminal import counted, draw_over

FIRST_S = 1.0
STEP_S = 0.2
LOOK_EVERY = 256
WIDTH = 24


@dataclass(slots=True)
class Flow:
    """Counts records and bytes. The line is there only where standard error is a screen."""

    verb: str
    is_quiet: bool = False
    total: int | None = None
    """Records in all, where that is known."""
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
        """Draws the line again, when it is time to."""
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
        """As in: produced 1,000 records (12.3 KiB) in 0.5 s."""
        seconds = time.monotonic() - self._began
        records = counted(f"{self.count:,}", "record")
        return f"{self.verb} {records} ({size_text(self.size)}) in {seconds:.1f} s"

    def clear(self) -> None:
        """Takes the line away."""
        if self._shown:
            draw_over("")

    def finish(self, where: str) -> None:
        """The summary, on standard error."""
        self.clear()
        if not self.is_quiet:
            click.echo(f"{self.text()}{where}", err=True)
