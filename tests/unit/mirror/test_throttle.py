"""A rate is kept over any time, however the sizes fall."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.mirror.throttle import Every, Throttle
from ottla.testing import FakeClock


def throttle_of(rate: int | None, clock: FakeClock) -> Throttle:
    return Throttle(rate, clock, lambda seconds: clock.advance(round(seconds * 1000)))


@pytest.mark.slow
@given(st.lists(st.integers(1, 5_000_000), min_size=1, max_size=50))
def test_what_is_taken_keeps_to_the_rate(sizes: list[int]) -> None:
    clock = FakeClock()
    throttle = throttle_of(1_000_000, clock)
    for size in sizes:
        throttle.take(size)
    taken_ms = sum(sizes) / 1000
    # A second is given at the start; each wait is rounded to a millisecond.
    assert clock.monotonic_ms() >= taken_ms - 1000 - len(sizes)
    assert clock.monotonic_ms() <= taken_ms + len(sizes)


def test_time_without_work_is_not_saved_up() -> None:
    clock = FakeClock()
    throttle = throttle_of(1000, clock)
    clock.advance(3_600_000)
    for _ in range(10):
        throttle.take(1000)
    assert clock.monotonic_ms() == 3_600_000 + 9000


def test_without_a_rate_nobody_waits() -> None:
    clock = FakeClock()
    throttle_of(None, clock).take(1 << 40)
    assert clock.monotonic_ms() == 0


def test_what_is_due_now_and_then_is_due_at_once_and_then_after_its_time() -> None:
    clock = FakeClock()
    every = Every(10, clock)
    assert [every.is_due(), every.is_due()] == [True, False]
    clock.advance(9999)
    assert not every.is_due()
    clock.advance(1)
    assert [every.is_due(), every.is_due()] == [True, False]
