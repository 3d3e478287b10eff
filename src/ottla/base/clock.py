"""Time as an argument: the only module that reads the system's clocks.

Code without I/O takes `now_ms`; the code that calls it holds a `Clock` and passes its readings.
"""

import time
from typing import Protocol

from ottla.base.timestamps import Timestamps


class Clock(Protocol):
    """The source of time."""

    def now_ms(self) -> int:
        """Milliseconds since the epoch (Kafka's `timestamp`)."""

    def monotonic_ms(self) -> float:
        """Milliseconds on a clock that never steps, for durations and deadlines."""


class WaitingClock(Clock, Protocol):
    """The clock of a thread that may wait."""

    def wait_ms(self, time_ms: float) -> None:
        """Returns after this time."""


class SystemClock:
    """The system's clocks."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> float:
        return time.monotonic() * 1000.0

    def wait_ms(self, time_ms: float) -> None:
        time.sleep(time_ms / 1000.0)


def read_clock(clock: Clock) -> Timestamps:
    """Reads both clocks."""
    return Timestamps(now_ms=clock.now_ms(), monotonic_ms=clock.monotonic_ms())
