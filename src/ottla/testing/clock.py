"""Clocks that a test moves: one stands still until then, the other runs."""

import time

DEFAULT_NOW_MS = 1_700_000_000_000
"""14 November 2023: a time of day that no zero and no small number can be mistaken for."""


class FakeClock:
    """Both readings of `base.clock.Clock`, moved by hand; the monotonic one starts at zero."""

    def __init__(self, now_ms: int = DEFAULT_NOW_MS) -> None:
        self._now_ms = now_ms
        self._monotonic_ms = 0.0

    def now_ms(self) -> int:
        return self._now_ms

    def monotonic_ms(self) -> float:
        return self._monotonic_ms

    def advance(self, ms: int) -> None:
        """Lets `ms` milliseconds go by on both."""
        assert ms >= 0, "time that passes goes forward; `step` sets the wall clock back"
        self._now_ms += ms
        self._monotonic_ms += ms

    def step(self, ms: int) -> None:
        """Sets the wall clock on or back, as an administrator does; no time goes by."""
        self._now_ms += ms


class MovableClock:
    """The machine's clock, set on by a test: time passes as always, and in leaps too."""

    def __init__(self) -> None:
        self._ahead_ms = 0.0

    def now_ms(self) -> int:
        return int(time.time_ns() / 1_000_000 + self._ahead_ms)

    def monotonic_ms(self) -> float:
        return time.monotonic() * 1000.0 + self._ahead_ms

    def advance(self, ms: float) -> None:
        """Lets `ms` milliseconds pass at once."""
        assert ms >= 0, "time that passes goes forward"
        self._ahead_ms += ms
