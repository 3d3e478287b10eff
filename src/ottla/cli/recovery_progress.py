"""What a long recovery is at, on standard error, while `ottla serve` is not ready yet."""

import click

from ottla.base.clock import Clock

INTERVAL_MS = 1000.0


class RecoveryProgress:
    """Is told every step and shows one a second; a recovery of less than that stays silent."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._shown_ms = clock.monotonic_ms()

    def __call__(self, step: str) -> None:
        now_ms = self._clock.monotonic_ms()
        if now_ms - self._shown_ms >= INTERVAL_MS:
            self._shown_ms = now_ms
            click.echo(f"recovering {step}", err=True)
