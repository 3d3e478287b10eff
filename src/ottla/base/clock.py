"""Time as an argument: the only place that asks the machine what time it is.

Everything below the shells takes `now_ms`; a shell holds a `Clock` and hands its readings down.
"""

import time
from typing import Protocol

from ottla.base.timestamps import Timestamps


class Clock(Protocol):
    """Where a shell reads the time."""

    def now_ms(self) -> int:
        """Milliseconds since the epoch (Kafka's `timestamp`)."""

    def monotonic_ms(self) -> float:
        """Milliseconds on a clock that never steps, for durations and deadlines."""


class SystemClock:
    """The machine's own clock."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> float:
        return time.monotonic() * 1000.0


def read_clock(clock: Clock) -> Timestamps:
    """Both readings at once."""
    return Timestamps(now_ms=clock.now_ms(), monotonic_ms=clock.monotonic_ms())
