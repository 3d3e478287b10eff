"""A lag in seconds comes from where earlier scrapes saw a log end."""

from ottla.base.partitions import TopicPartition
from ottla.cli.serve.metrics.lag_times import KEPT, LagTimes

WHERE = TopicPartition("t", 0)


def test_a_group_at_the_end_lags_by_nothing() -> None:
    times = LagTimes()
    assert times.lag_s(WHERE, 0, 10.0) == 0
    times.note(WHERE, 100, 10.0)
    assert times.lag_s(WHERE, 100, 20.0) == 0


def test_where_a_log_ended_between_two_scrapes_is_interpolated() -> None:
    times = LagTimes()
    times.note(WHERE, 100, 10.0)
    times.note(WHERE, 100, 20.0)
    times.note(WHERE, 200, 30.0)
    assert times.lag_s(WHERE, 150, 30.0) == 5.0
    assert times.lag_s(WHERE, 100, 30.0) == 10.0


def test_what_was_written_before_the_first_scrape_lags_at_least_since_then() -> None:
    times = LagTimes()
    times.note(WHERE, 100, 10.0)
    times.note(WHERE, 100, 40.0)
    assert times.lag_s(WHERE, 50, 40.0) == 30.0


def test_old_ends_are_thinned_out_and_partitions_without_commits_forgotten() -> None:
    times = LagTimes()
    for number in range(10 * KEPT):
        times.note(WHERE, number, float(number))
    assert len(times._seen[WHERE]) <= KEPT
    assert abs(times.lag_s(WHERE, 20, 10.0 * KEPT) - (10 * KEPT - 20)) < KEPT
    times.keep_only(())
    assert not times._seen
