"""Limits of rate and frequency: a throttle, and periodic work."""

from collections.abc import Callable

from ottla.base.clock import Clock


class Throttle:
    """Limits the average to `rate` bytes per second; `None` is unlimited.

    Idle time of up to one second counts for the average.
    """

    def __init__(self, rate: int | None, clock: Clock, sleep: Callable[[float], None]) -> None:
        self._rate = rate
        self._clock = clock
        self._sleep = sleep
        self._free_ms = clock.monotonic_ms()
        """When the bytes taken so far are within the rate."""

    def take(self, size: int) -> None:
        """Sleeps until `size` more bytes are within the rate."""
        if not self._rate:
            return
        now_ms = self._clock.monotonic_ms()
        self._free_ms = max(self._free_ms, now_ms - 1000) + size * 1000 / self._rate
        if self._free_ms > now_ms:
            self._sleep((self._free_ms - now_ms) / 1000)


class Every:
    """Periodic work that is due at once, and then again after each interval."""

    def __init__(self, seconds: float, clock: Clock) -> None:
        self._interval_ms = seconds * 1000
        self._clock = clock
        self._due_ms = clock.monotonic_ms()

    def is_due(self) -> bool:
        """Whether the work is due; if so, the next interval begins."""
        now_ms = self._clock.monotonic_ms()
        if now_ms < self._due_ms:
            return False
        self._due_ms = now_ms + self._interval_ms
        return True
