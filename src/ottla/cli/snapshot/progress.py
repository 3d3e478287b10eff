"""A line about a copy that takes more than a second; nothing if standard error is not a
terminal.
"""

import sys
import time

from ottla.base.texts import size_text
from ottla.cli.terminal import draw_over

FIRST_S = 1.0
STEP_S = 0.2


class CopyProgress:
    """Used in a `with` statement, which removes the line."""

    def __init__(self, verb: str, *, is_quiet: bool) -> None:
        self._verb = verb
        self._is_shown = not is_quiet and sys.stderr.isatty()
        self._next_s = time.monotonic() + FIRST_S
        self._has_line = False

    def __enter__(self) -> "CopyProgress":
        return self

    def __exit__(self, *_: object) -> None:
        if self._has_line:
            draw_over("")

    def show(self, done: int, total: int) -> None:
        """Draws the line again, when it is due."""
        if not self._is_shown or time.monotonic() < self._next_s:
            return
        self._next_s = time.monotonic() + STEP_S
        self._has_line = True
        draw_over(f"{self._verb}: {size_text(done)} of {size_text(total)}")
