"""Opens a directory's log for a command, with a line that shows the progress of a long recovery."""

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ottla.base.clock import Clock, SystemClock
from ottla.cli.terminal import ProgressLine, progress_line

if TYPE_CHECKING:
    from ottla.embedded.log import Log

QUICK_MS = 1000.0
"""Seconds from which the progress of opening is shown."""


def open_directories(paths: Sequence[str], settings: Mapping[str, Any]) -> "Log":
    """As `ottla.open`; on a terminal the progress of a recovery of more than a second is shown."""
    from ottla.embedded.environment import Environment
    from ottla.embedded.log import open_in

    line = OpeningLine(SystemClock(), progress_line)
    try:
        return open_in(Environment(on_progress=line), paths, settings)
    finally:
        line.end()


class OpeningLine:
    """Called with every step, by several threads; shows the latest until `end`."""

    def __init__(self, clock: Clock, new_line: Callable[[str], ProgressLine]) -> None:
        self._clock = clock
        self._new_line = new_line
        self._began_ms = clock.monotonic_ms()
        self._lock = threading.Lock()
        self._line: ProgressLine | None = None
        self._is_over = False

    def __call__(self, step: str) -> None:
        with self._lock:
            if self._is_over or self._clock.monotonic_ms() - self._began_ms < QUICK_MS:
                return
            if self._line is None:
                self._line = self._new_line(step)
                self._line.__enter__()
            self._line.say(step)

    def end(self) -> None:
        """Removes the line; later changes to the log are not shown."""
        with self._lock:
            self._is_over = True
            if self._line is not None:
                self._line.__exit__()
