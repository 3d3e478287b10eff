"""Clocks that a test can move: one is stopped, the other runs."""

import time

DEFAULT_NOW_MS = 1_700_000_000_000
"""14 November 2023: distinct from zero and from small numbers."""


class FakeClock:
    """Both readings of `base.clock.Clock`, moved by the test; the monotonic one starts at zero.

    >>> clock = FakeClock(now_ms=1_767_225_600_000)
    >>> clock.advance(1000)
    >>> clock.now_ms(), clock.monotonic_ms()
    (1767225601000, 1000.0)
    >>> clock.step(-5000)
    >>> clock.now_ms(), clock.monotonic_ms()
    (1767225596000, 1000.0)
    """

    def __init__(self, now_ms: int = DEFAULT_NOW_MS) -> None:
        self._now_ms = now_ms
        self._monotonic_ms = 0.0

    def now_ms(self) -> int:
        """Milliseconds since 1970."""
        return self._now_ms

    def monotonic_ms(self) -> float:
        """Milliseconds since the start."""
        return self._monotonic_ms

    def advance(self, ms: int) -> None:
        """Advances both readings by `ms` milliseconds."""
        assert ms >= 0, "time that passes goes forward; `step` sets the wall clock back"
        self._now_ms += ms
        self._monotonic_ms += ms

    def step(self, ms: int) -> None:
        """Sets the wall clock forward or back, as an administrator might; no time passes."""
        self._now_ms += ms


class MovableClock:
    """The machine's clock, which a test can also advance.

    >>> clock = MovableClock()
    >>> before = clock.now_ms()
    >>> clock.advance(60_000)
    >>> clock.now_ms() - before >= 60_000 and clock.monotonic_ms() >= 60_000
    True
    """

    def __init__(self) -> None:
        self._ahead_ms = 0.0

    def now_ms(self) -> int:
        """Milliseconds since 1970."""
        return int(time.time_ns() / 1_000_000 + self._ahead_ms)

    def monotonic_ms(self) -> float:
        """Milliseconds since an arbitrary start."""
        return time.monotonic() * 1000.0 + self._ahead_ms

    def advance(self, ms: float) -> None:
        """Advances the clock by `ms` milliseconds."""
        assert ms >= 0, "time that passes goes forward"
        self._ahead_ms += ms
