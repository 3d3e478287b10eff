"""Periodic work on a clock that is handed in."""

from ottla.base.moment import Moment
from ottla.broker.jobs import Jobs


def at(monotonic_ms: float) -> Moment:
    return Moment(now_ms=int(monotonic_ms), monotonic_ms=monotonic_ms)


def test_a_job_runs_once_per_interval_however_late_it_is_called() -> None:
    jobs, runs = Jobs(), []
    jobs.add(100, lambda moment: runs.append(moment.monotonic_ms))
    assert jobs.next_deadline_ms is None
    for now in (1000, 1099, 1100, 1150, 1199, 1450, 1460):
        jobs.advance(at(now))
    assert runs == [1100, 1450]
    assert jobs.next_deadline_ms == 1550


def test_the_nearest_of_all_jobs_is_the_deadline() -> None:
    jobs = Jobs()
    jobs.add(100, lambda moment: None)
    jobs.add(0, lambda moment: None)
    jobs.advance(at(5))
    assert jobs.next_deadline_ms == 6
