"""Progress of a long start or stop of `ottla serve`, on standard error."""

import click

from ottla.base.clock import Clock

INTERVAL_MS = 1000.0


class RecoveryProgress:
    """Called with every step, prints one per second; a shorter start prints nothing.

    Steps may come from several threads; of two at once one is shown too many, at worst.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.step = ""
        """The last one."""
        self.begin()

    def begin(self) -> None:
        """The first second begins now: a stop is not part of what came before it."""
        self._shown_ms = self._clock.monotonic_ms()

    def __call__(self, step: str) -> None:
        self.step = step
        now_ms = self._clock.monotonic_ms()
        if now_ms - self._shown_ms >= INTERVAL_MS:
            self._shown_ms = now_ms
            click.echo(step, err=True)
