"""Pauses end in the order of their times."""

from ottla.broker.quotas.throttled_clients import Pauses


def test_pauses_are_over_when_their_time_has_come() -> None:
    pauses = Pauses()
    late, early, same = pauses.add(30.0), pauses.add(10.0), pauses.add(10.0)
    assert pauses.next_deadline_ms == 10.0
    assert pauses.take_over(9.9) == []
    assert pauses.take_over(10.0) == [early, same]
    assert pauses.next_deadline_ms == 30.0
    assert pauses.take_over(50.0) == [late]
    assert pauses.next_deadline_ms is None
    assert not pauses.heap
