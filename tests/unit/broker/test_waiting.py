"""Waiting fetches: woken by their partitions, ended by their deadlines, never answered twice."""

from ottla.base.timers import STALE_TO_KEEP, AllTimers, Timers
from ottla.broker.waiting.rooms import WaitingFetch, WaitingRoom

Room = WaitingRoom[str, int]
Fetch = WaitingFetch[str, int]


def waiting(room: Room, *keys: str, deadline_ms: float = 500) -> Fetch:
    fetch = Fetch("query", keys, deadline_ms)
    room.add(fetch)
    return fetch


def test_an_append_wakes_only_those_who_wait_for_its_partition() -> None:
    room = Room(Timers())
    mine, other = waiting(room, "a-0"), waiting(room, "b-0")
    room.wake("a-0")
    assert list(room.take_woken()) == [mine]
    assert not mine.is_woken
    assert not other.is_woken


def test_a_fetch_of_two_partitions_is_woken_once_for_both() -> None:
    room = Room(Timers())
    fetch = waiting(room, "a-0", "a-1")
    room.wake("a-0")
    room.wake("a-1")
    assert list(room.take_woken()) == [fetch]
    assert list(room.take_woken()) == []


def test_a_woken_fetch_that_is_not_ended_is_woken_again_by_the_next_append() -> None:
    room = Room(Timers())
    fetch = waiting(room, "a-0")
    room.wake("a-0")
    list(room.take_woken())
    room.wake("a-0")
    assert room.has_woken
    assert list(room.take_woken()) == [fetch]


def test_a_fetch_ended_after_it_was_woken_is_not_returned() -> None:
    room = Room(Timers())
    fetch = waiting(room, "a-0")
    room.wake("a-0")
    room.end(fetch)
    assert list(room.take_woken()) == []


def test_news_that_no_growth_brings_ends_the_fetches_of_the_partition_at_once() -> None:
    room = Room(Timers())
    mine, other = waiting(room, "a-0"), waiting(room, "b-0")
    room.hurry("a-0")
    assert list(room.advance(1)) == [mine]
    assert list(room.advance(499)) == []
    assert list(room.advance(500)) == [other]


def test_a_fetch_that_is_looked_at_is_over_when_it_is_released() -> None:
    room = Room(Timers())
    fetch = Fetch("query", ["a-0"], 500)
    room.hold(fetch)
    room.watch(fetch, "a-0")
    room.hurry("a-0")
    assert list(room.advance(1)) == []
    room.release(fetch)
    assert list(room.advance(1)) == [fetch]


def test_an_ended_fetch_is_never_woken_nor_expired() -> None:
    room = Room(Timers())
    fetch = waiting(room, "a-0", deadline_ms=10)
    room.end(fetch)
    room.wake("a-0")
    assert list(room.take_woken()) == []
    assert list(room.advance(1000)) == []


def test_ending_twice_is_ending_once() -> None:
    room = Room(Timers())
    fetch, other = waiting(room, "a-0"), waiting(room, "a-0")
    room.end(fetch)
    room.end(fetch)
    assert len(room) == 1
    room.wake("a-0")
    assert list(room.take_woken()) == [other]


def test_the_next_deadline_is_the_nearest_of_those_that_still_wait() -> None:
    timers: AllTimers = Timers()
    room = Room(timers)
    late, soon = waiting(room, "a-0", deadline_ms=300), waiting(room, "a-0", deadline_ms=100)
    assert timers.next_deadline_ms == 100
    room.end(soon)
    assert timers.next_deadline_ms == 300
    room.end(late)
    assert timers.next_deadline_ms is None


def test_time_expires_fetches_in_order_of_deadline_and_not_before() -> None:
    room = Room(Timers())
    fetches = [waiting(room, "a-0", deadline_ms=deadline) for deadline in (30, 10, 20)]
    assert list(room.advance(9.9)) == []
    assert list(room.advance(20)) == [fetches[1], fetches[2]]
    assert list(room.advance(30)) == [fetches[0]]


def test_a_fetch_without_partitions_waits_for_its_deadline() -> None:
    room = Room(Timers())
    fetch = waiting(room, deadline_ms=5)
    assert list(room.advance(5)) == [fetch]


def test_ended_fetches_do_not_pile_up_behind_a_distant_deadline() -> None:
    room = Room(Timers())
    for _ in range(1000):
        room.end(waiting(room, "a-0", deadline_ms=30_000))
    assert len(room._deadlines._heap) <= STALE_TO_KEEP + 2
    assert room._by_key == {}


def test_a_fetch_that_is_held_is_handed_out_once_it_is_released() -> None:
    room = Room(Timers())
    fetch = Fetch("query", ["a-0"], 10)
    room.hold(fetch)
    room.watch(fetch, "a-0")
    room.wake("a-0")
    assert not room.has_woken
    assert list(room.advance(1000)) == []
    room.release(fetch)
    assert list(room.take_woken()) == [fetch]
    assert list(room.advance(1000)) == [fetch]
    room.end(fetch)
    assert len(room) == 0


def test_a_fetch_that_is_held_can_be_ended() -> None:
    room = Room(Timers())
    fetch = Fetch("query", ["a-0"], 10)
    room.hold(fetch)
    room.watch(fetch, "a-0")
    room.end(fetch)
    room.wake("a-0")
    assert (len(room), room.has_woken) == (0, False)


def test_what_is_committed_wakes_those_that_have_not_read_it_before() -> None:
    room = Room(Timers())
    consumer = Fetch("query", ["a-0"], 10)
    follower = Fetch("query", ["a-0"], 10, reads_ahead=True)
    room.add(consumer)
    room.add(follower)
    room.wake_committed("a-0")
    assert list(room.take_woken()) == [consumer]
    room.wake("a-0")
    assert list(room.take_woken()) == [consumer, follower]
