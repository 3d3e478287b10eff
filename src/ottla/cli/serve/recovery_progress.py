"""Progress of a long start or stop of `ottla serve`: on standard error, and for `ottla status`."""

from collections.abc import Callable

import click

from ottla.base.clock import Clock
from ottla.storage.directory.open_options import StartStep

INTERVAL_MS = 1000.0


class RecoveryProgress:
    """Called with every step, prints one per second; a short start prints nothing.

    Steps may come from several threads; simultaneous steps may print a line too many.
    """

    def __init__(
        self,
        clock: Clock,
        note: Callable[[str], None] | None = None,
        report: Callable[[str], None] = lambda _: None,
    ) -> None:
        """`report` is called with each step that is shown, and `note` with those of a start."""
        self._clock = clock
        self._note = note
        self._report = report
        self.step = ""
        """The last step."""
        self.left: dict[str, tuple[int, int]] = {}
        """The logs and the segments of each directory that are left to recover."""
        self._shown_ms = clock.monotonic_ms()

    def begin_stop(self) -> None:
        """Starts the first second now, since a stop is not part of what came before it."""
        self._note = None
        self._shown_ms = self._clock.monotonic_ms()

    def __call__(self, step: str) -> None:
        self.step = step
        if isinstance(step, StartStep):
            self.left[step.directory] = (step.logs_left, step.segments_left)
        now_ms = self._clock.monotonic_ms()
        if now_ms - self._shown_ms >= INTERVAL_MS:
            self._shown_ms = now_ms
            click.echo(step, err=True)
            self._report(step)
            if self._note is not None:
                self._note(step)
