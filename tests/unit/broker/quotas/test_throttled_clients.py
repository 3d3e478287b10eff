"""ThrottledClients end in the order of their times."""

from ottla.base.timers import AllTimers, Timers
from ottla.broker.quotas.throttled_clients import ThrottledClients


def test_pauses_are_over_when_their_time_has_come() -> None:
    timers: AllTimers = Timers()
    clients = ThrottledClients(timers)
    late, early, same = clients.add(30.0), clients.add(10.0), clients.add(10.0)
    assert timers.next_deadline_ms == 10.0
    assert clients.take_over(9.9) == []
    assert clients.take_over(10.0) == [early, same]
    assert timers.next_deadline_ms == 30.0
    assert clients.take_over(50.0) == [late]
    assert timers.next_deadline_ms is None
    assert not clients
