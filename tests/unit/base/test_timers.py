"""Deadlines by key: set, moved, cancelled, and due in order."""

import random
from collections.abc import Callable
from functools import partial

from ottla.base.timers import PASSED_AT_ONCE, STALE_TO_KEEP, AllTimers, Timers


def take_all(timers: Timers[str], now_ms: float) -> list[str]:
    due = []
    while (key := timers.take_due(now_ms)) is not None:
        due.append(key)
    return due


def test_keys_come_due_in_the_order_of_their_deadlines() -> None:
    timers: Timers[str] = Timers()
    timers.set("late", 30)
    timers.set("early", 10)
    assert timers.next_deadline_ms == 10
    assert take_all(timers, 9) == []
    assert take_all(timers, 30) == ["early", "late"]
    assert timers.next_deadline_ms is None


def test_a_deadline_that_was_moved_back_comes_once_at_its_new_time() -> None:
    timers: Timers[str] = Timers()
    timers.set("k", 10)
    timers.set("k", 20)
    assert timers.next_deadline_ms == 20
    assert take_all(timers, 19) == []
    assert take_all(timers, 25) == ["k"]
    assert take_all(timers, 99) == []


def test_a_deadline_can_be_moved_forward() -> None:
    timers: Timers[str] = Timers()
    timers.set("k", 20)
    timers.set("k", 10)
    assert take_all(timers, 10) == ["k"]
    assert take_all(timers, 99) == []


def test_a_cancelled_key_never_comes_due_unless_it_is_set_again() -> None:
    timers: Timers[str] = Timers()
    timers.set("k", 10)
    timers.cancel("k")
    timers.cancel("never set")
    assert "k" not in timers
    assert take_all(timers, 99) == []
    timers.set("k", 10)
    assert take_all(timers, 99) == ["k"]


def test_timers_agree_with_a_plain_dictionary() -> None:
    chance = random.Random(3)
    timers: Timers[str] = Timers()
    model: dict[str, int] = {}
    for now_ms in range(3000):
        key = chance.choice("abcdef")
        if chance.random() < 0.7:
            deadline_ms = now_ms + chance.randrange(1, 60)
            timers.set(key, deadline_ms)
            model[key] = deadline_ms
        else:
            timers.cancel(key)
            model.pop(key, None)
        assert timers.next_deadline_ms == min(model.values(), default=None)
        assert len(timers) == len(model)
        due = {one for one, deadline_ms in model.items() if deadline_ms <= now_ms}
        assert set(take_all(timers, now_ms)) == due
        for one in due:
            del model[one]


def test_the_first_deadline_of_all_rooms_is_that_of_the_whole() -> None:
    chance = random.Random(5)
    whole: AllTimers = Timers()
    rooms: list[Timers[str]] = [whole.new_room() for _ in range(4)]
    for now_ms in range(2000):
        room, key = chance.choice(rooms), chance.choice("abc")
        if chance.random() < 0.7:
            room.set(key, now_ms + chance.randrange(1, 60))
        else:
            room.cancel(key)
        firsts = [one for room in rooms if (one := room.next_deadline_ms) is not None]
        assert whole.next_deadline_ms == min(firsts, default=None)
        take_all(chance.choice(rooms), now_ms)


def test_what_is_due_in_a_room_is_taken_by_that_room_alone() -> None:
    whole: AllTimers = Timers()
    one, other = whole.new_room(), whole.new_room()
    one.set("a", 10)
    other.set("b", 5)
    assert one.take_all_due(10) == ["a"]
    assert whole.next_deadline_ms == 5
    assert other.take_all_due(10) == ["b"]
    assert whole.next_deadline_ms is None


def test_a_closed_room_counts_no_longer_also_with_what_is_set_later() -> None:
    whole: AllTimers = Timers()
    one, other = whole.new_room(), whole.new_room()
    one.set("a", 10)
    other.set("b", 50)
    assert whole.next_deadline_ms == 10
    one.set("a", 7)
    one.close()
    assert whole.next_deadline_ms == 50
    one.set("a", 1)
    one.close()
    assert whole.next_deadline_ms == 50
    assert one.take_all_due(1) == ["a"]


class Counted:
    """A key; `looks` counts how often any of them is looked up."""

    looks = 0

    def __init__(self, number: int) -> None:
        self.number = number

    def __hash__(self) -> int:
        Counted.looks += 1
        return self.number


def looks_of(deed: Callable[[], object]) -> int:
    before = Counted.looks
    deed()
    return Counted.looks - before


def test_no_call_goes_through_thousands_of_deadlines_that_were_moved_or_cancelled() -> None:
    timers: Timers[Counted] = Timers()
    keys = [Counted(number) for number in range(5000)]
    looks = []
    for key in keys:
        timers.set(key, 10)
    for key in keys:
        timers.set(key, 20)
    while (timers.next_deadline_ms or 0) < 20:
        looks.append(looks_of(lambda: timers.first_due(19)))
    for key in keys[:-1]:
        looks.append(looks_of(partial(timers.cancel, key)))
    assert max(looks) <= 8 * PASSED_AT_ONCE
    assert len(timers._heap) + len(timers._unclean) < 2 * STALE_TO_KEEP
    due = None
    while due is None:
        due = timers.first_due(20)
    assert due is keys[-1]


def test_many_timers_agree_with_a_plain_dictionary_while_they_are_cleaned() -> None:
    chance = random.Random(5)
    timers: Timers[int] = Timers()
    model: dict[int, int] = {}
    now_ms = 0
    for _ in range(60):
        for key in chance.sample(range(1000), 400):
            model[key] = now_ms + chance.choice((5, 50, 500))
            timers.set(key, model[key])
        for key in chance.sample(range(1000), chance.choice((0, 900))):
            model.pop(key, None)
            timers.cancel(key)
        now_ms += chance.choice((1, 60, 700))
        due = []
        while (timers.next_deadline_ms or now_ms + 1) <= now_ms:
            if (found := timers.take_due(now_ms)) is not None:
                due.append(found)
        assert set(due) == {key for key, deadline in model.items() if deadline <= now_ms}
        assert [model[key] for key in due] == sorted(model[key] for key in due)
        model = {key: deadline for key, deadline in model.items() if deadline > now_ms}
        assert len(timers) == len(model)
        assert len(timers._heap) + len(timers._unclean) <= 4 * 1000 + STALE_TO_KEEP
