"""When the server sleeps between requests, and when it looks again at once."""

from collections.abc import Sequence

from ottla.server.network.busy_poll import BUSY_POLL_S, BusyPoll, sleep_towards


class Requests:
    """A clock and the moments at which events come; each look takes a microsecond."""

    def __init__(self, *arrivals_s: float) -> None:
        self.now_s = 0.0
        self.sleeps: list[float | None] = []
        self.looks = 0
        self.times_given_way = 0
        self._arrivals_s = list(arrivals_s)
        self._waiting = BusyPoll(self.select, lambda: self.now_s, self.yield_processor)

    def yield_processor(self) -> None:
        self.times_given_way += 1

    def select(self, timeout_s: float | None) -> Sequence[str]:
        self.now_s += 1e-6
        if timeout_s == 0:
            self.looks += 1
        else:
            self.sleeps.append(timeout_s)
            until_s = self._arrivals_s[0] if self._arrivals_s else float("inf")
            limit_s = float("inf") if timeout_s is None else self.now_s + timeout_s
            self.now_s = max(self.now_s, min(until_s, limit_s))
        if self._arrivals_s and self._arrivals_s[0] <= self.now_s:
            del self._arrivals_s[0]
            return ["event"]
        return []

    def wait(self, timeout_s: float | None) -> Sequence[str]:
        return self._waiting.wait(lambda: timeout_s)


def test_who_speaks_now_and_then_is_waited_for_asleep() -> None:
    requests = Requests(0.1, 0.2, 0.3)
    for _ in range(3):
        assert requests.wait(10.0) == ["event"]
    assert requests.sleeps == [10.0] * 3
    assert requests.looks == 0


def test_who_speaks_at_once_is_not_waited_for_asleep() -> None:
    requests = Requests(*(50e-6 * number for number in range(1, 6)))
    for _ in range(5):
        assert requests.wait(None) == ["event"]
    assert requests.sleeps == [None]
    assert requests.looks > 5


def test_others_have_the_core_after_each_look_in_vain() -> None:
    requests = Requests(50e-6, 100e-6)
    for _ in range(2):
        assert requests.wait(None) == ["event"]
    assert requests.looks > 5
    assert requests.times_given_way == requests.looks - 1


def test_looking_ends_when_it_was_in_vain() -> None:
    requests = Requests(50e-6, 0.5, 0.6)
    assert requests.wait(None) == ["event"]
    assert requests.wait(None) == ["event"]
    in_vain = requests.looks
    assert 0 < in_vain <= BUSY_POLL_S * 1e6 + 1
    assert requests.wait(None) == ["event"]
    assert requests.looks == in_vain
    assert requests.now_s >= 0.6


def test_a_deadline_that_is_near_is_not_missed() -> None:
    requests = Requests()
    assert requests.wait(0) == []
    assert requests.wait(BUSY_POLL_S) == []
    assert requests.now_s < 2 * BUSY_POLL_S + 1e-5
    assert requests.wait(0.25) == []
    assert requests.now_s < 0.26


def test_what_is_due_is_slept_towards_and_not_over() -> None:
    """Where a sleep of any length may last a 200th longer than asked."""
    left_s, sleeps = 6.0, 0
    while left_s > 0:
        left_s -= sleep_towards(left_s) * (1 + 1 / 200)
        sleeps += 1
    assert left_s > -100e-6
    assert sleeps <= 4


def test_short_sleep_is_slept_at_once() -> None:
    assert sleep_towards(0.005) == 0.005
    assert sleep_towards(0.0) == 0.0
