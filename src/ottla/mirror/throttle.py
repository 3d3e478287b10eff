"""How fast, and how often: a rate that is kept on the average, and what is due now and then."""

from collections.abc import Callable

from ottla.base.clock import Clock


class Throttle:
    """At most `rate` bytes a second, counted since it began; `None` never waits.

    Time in which nothing was taken is not saved up beyond a second.
    """

    def __init__(self, rate: int | None, clock: Clock, sleep: Callable[[float], None]) -> None:
        self._rate = rate
        self._clock = clock
        self._sleep = sleep
        self._free_ms = clock.monotonic_ms()
        """When all that was taken is paid for."""

    def take(self, size: int) -> None:
        """Waits until `size` bytes more keep to the rate."""
        if not self._rate:
            return
        now_ms = self._clock.monotonic_ms()
        self._free_ms = max(self._free_ms, now_ms - 1000) + size * 1000 / self._rate
        if self._free_ms > now_ms:
            self._sleep((self._free_ms - now_ms) / 1000)


class Every:
    """Something that is due at once, and then again when so many seconds have passed."""

    def __init__(self, seconds: float, clock: Clock) -> None:
        self._interval_ms = seconds * 1000
        self._clock = clock
        self._due_ms = clock.monotonic_ms()

    def is_due(self) -> bool:
        """Whether it is; it counts as done then."""
        now_ms = self._clock.monotonic_ms()
        if now_ms < self._due_ms:
            return False
        self._due_ms = now_ms + self._interval_ms
        return True
