"""Periodic work on a clock that is handed in."""

import pytest

from ottla.base.timers import AllTimers, Timers
from ottla.base.timestamps import Timestamps
from ottla.broker.log_jobs.jobs import Jobs


def at(monotonic_ms: float) -> Timestamps:
    return Timestamps(now_ms=int(monotonic_ms), monotonic_ms=monotonic_ms)


@pytest.fixture
def timers() -> AllTimers:
    return Timers()


def test_a_job_runs_once_per_interval_however_late_it_is_called(timers: AllTimers) -> None:
    jobs, runs = Jobs(timers), []
    jobs.add(lambda: 100, lambda moment: runs.append(moment.monotonic_ms))
    assert timers.next_deadline_ms is None
    for now in (1000, 1099, 1100, 1150, 1199, 1450, 1460):
        jobs.advance(at(now))
    assert runs == [1100, 1450]
    assert timers.next_deadline_ms == 1550


def test_the_nearest_of_all_jobs_is_the_deadline(timers: AllTimers) -> None:
    jobs = Jobs(timers)
    jobs.add(lambda: 100, lambda moment: None)
    jobs.add(lambda: 0, lambda moment: None)
    jobs.advance(at(5))
    assert timers.next_deadline_ms == 6


def test_the_first_run_comes_after_a_delay_of_its_own(timers: AllTimers) -> None:
    jobs, runs = Jobs(timers), []
    jobs.add(lambda: 100, lambda moment: runs.append(moment.monotonic_ms), initial_ms=lambda: 30)
    for now in (0, 29, 30, 129, 130):
        jobs.advance(at(now))
    assert runs == [30, 130]


def test_a_job_that_has_more_to_do_is_due_again_at_once(timers: AllTimers) -> None:
    jobs, left = Jobs(timers), [True, True, False]
    jobs.add(lambda: 100, lambda moment: left.pop(0))
    jobs.advance(at(0))
    for _ in range(2):
        jobs.advance(at(100))
        assert timers.next_deadline_ms == 100
    jobs.advance(at(101))
    assert timers.next_deadline_ms == 201


def test_an_interval_that_is_changed_holds_from_the_next_run(timers: AllTimers) -> None:
    jobs, interval = Jobs(timers), [100]
    jobs.add(lambda: interval[0], lambda moment: None)
    jobs.advance(at(0))
    interval[0] = 7
    jobs.advance(at(100))
    assert timers.next_deadline_ms == 107


def test_a_job_that_fails_waits_longer_each_time_and_says_each_cause_once(
    timers: AllTimers, caplog: pytest.LogCaptureFixture
) -> None:
    jobs, runs, others = Jobs(timers), [], []
    causes: list[Exception | None] = [ValueError("a"), ValueError("a"), ValueError("b"), None]

    def fail(moment: Timestamps) -> None:
        runs.append(moment.monotonic_ms)
        cause = causes.pop(0) if causes else None
        if cause is not None:
            raise cause

    jobs.add(lambda: 100, fail)
    jobs.add(lambda: 100, lambda moment: others.append(moment.monotonic_ms))
    for now in range(0, 1001, 100):
        jobs.advance(at(now))
    assert runs == [100, 200, 400, 800, 900, 1000]
    assert others == list(range(100, 1001, 100))
    said = [one.getMessage() for one in caplog.records]
    assert [one.rpartition(": ")[2] for one in said] == ["a", "b"]
    assert all("fail failed, and will be tried again" in one for one in said)
