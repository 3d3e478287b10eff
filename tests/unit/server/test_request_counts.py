"""Requests are counted and timed by API."""

from ottla.protocol.api_keys import ApiKey
from ottla.server.dispatching.request_counts import BOUNDS_MS, Histogram, RequestCounts


def test_a_duration_falls_into_the_first_bucket_that_holds_it() -> None:
    histogram = Histogram()
    for duration_ms in (0.05, 0.1, 0.2, 1e9):
        histogram.add(duration_ms)
    assert histogram.counts[:2] == [2, 1]
    assert histogram.counts[len(BOUNDS_MS)] == 1
    assert sum(histogram.counts) == 4


def test_the_requests_of_a_round_last_as_long_as_the_round() -> None:
    counts = RequestCounts()
    produce = counts.of(ApiKey.PRODUCE)
    counts.begin_round(1000.0)
    produce.in_round = 3
    counts.in_round.append(produce)
    counts.end_round(1002.0)
    assert (sum(produce.durations.counts), produce.durations.sum_ms) == (3, 6.0)
    assert not produce.in_round
    assert not counts.in_round


def test_a_request_that_lay_in_the_buffer_is_timed_from_when_it_came() -> None:
    counts = RequestCounts()
    produce = counts.of(ApiKey.PRODUCE)
    counts.begin_round(1000.0)
    counts.begin_queued(990.0)
    produce.in_round = 2
    counts.in_round.append(produce)
    counts.end_queued()
    counts.end_round(1001.0)
    assert (produce.durations.sum_ms, produce.queued_ms) == (22.0, 20.0)
    assert counts.received_ms == 1000.0


def test_an_answer_that_had_to_wait_is_timed_by_itself() -> None:
    counts = RequestCounts()
    counts.begin_round(2000.0)
    counts.answered_late(counts.of(ApiKey.FETCH), 1500.0)
    counts.end_round(2000.5)
    assert [(one.name, one.durations.sum_ms) for one in counts] == [("Fetch", 500.5)]
