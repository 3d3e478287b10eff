"""A clock that a test moves."""

import pytest

from ottla.base.clock import Clock
from ottla.testing import FakeClock


def test_time_stands_still_until_it_is_advanced() -> None:
    clock: Clock = FakeClock(now_ms=1000)
    assert (clock.now_ms(), clock.monotonic_ms()) == (1000, 0.0)
    assert (clock.now_ms(), clock.monotonic_ms()) == (1000, 0.0)


def test_both_readings_advance() -> None:
    clock = FakeClock(now_ms=1000)
    clock.advance(250)
    assert (clock.now_ms(), clock.monotonic_ms()) == (1250, 250.0)


def test_only_the_wall_clock_is_set_back() -> None:
    clock = FakeClock(now_ms=1000)
    clock.step(-300)
    assert (clock.now_ms(), clock.monotonic_ms()) == (700, 0.0)
    with pytest.raises(AssertionError):
        clock.advance(-1)
