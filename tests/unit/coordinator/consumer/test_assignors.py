"""The assignors: everything is assigned once, evenly, and to who had it if that can be."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.base.ids import Uuid
from ottla.coordinator.consumer.assignors import (
    ASSIGNORS,
    Subscriber,
    assign_range,
    assign_uniform,
)
from ottla.coordinator.consumer.partitions import Assignment
from tests.support.consumer_groups import partitions, places, topic_id

Assignments = dict[str, Assignment]
TOPICS = "abcd"


def subscribers(**topics: str) -> dict[str, Subscriber]:
    """`subscribers(m="ab")`: a member that reads topics a and b, and was to have nothing."""
    return {
        member_id: Subscriber(topics=frozenset(map(topic_id, names)))
        for member_id, names in topics.items()
    }


def counts(**by_name: int) -> dict[Uuid, int]:
    return {topic_id(name): count for name, count in by_name.items()}


def shown(assigned: Assignments) -> dict[str, set[str]]:
    return {member_id: places(target) for member_id, target in assigned.items()}


def following(assigned: Assignments, readers: Mapping[str, Subscriber]) -> dict[str, Subscriber]:
    """The same members when the target has been what was assigned."""
    return {
        member_id: Subscriber(
            instance_id=one.instance_id,
            topics=one.topics,
            target=assigned.get(member_id, frozenset()),
        )
        for member_id, one in readers.items()
    }


# Range


def test_range_gives_neighbours_and_the_odd_ones_to_the_first() -> None:
    assigned = assign_range(subscribers(m="a", n="a", o="a"), counts(a=7))
    assert shown(assigned) == {"m": {"a0", "a1", "a2"}, "n": {"a3", "a4"}, "o": {"a5", "a6"}}


def test_range_gives_the_same_places_in_topics_of_one_size() -> None:
    assigned = assign_range(subscribers(m="ab", n="ab"), counts(a=3, b=3))
    assert shown(assigned) == {"m": {"a0", "a1", "b0", "b1"}, "n": {"a2", "b2"}}


def test_range_shares_a_topic_among_those_who_read_it() -> None:
    assigned = assign_range(subscribers(m="ab", n="b"), counts(a=2, b=2))
    assert shown(assigned) == {"m": {"a0", "a1", "b0"}, "n": {"b1"}}


def test_range_leaves_who_is_too_many_with_nothing() -> None:
    assigned = assign_range(subscribers(m="a", n="a", o="a"), counts(a=2))
    assert shown(assigned) == {"m": {"a0"}, "n": {"a1"}, "o": set()}


def test_range_has_static_members_first_in_the_order_of_their_names() -> None:
    readers = subscribers(m="a") | {
        "x": Subscriber(instance_id="2", topics=frozenset({topic_id("a")})),
        "y": Subscriber(instance_id="1", topics=frozenset({topic_id("a")})),
    }
    assigned = assign_range(readers, counts(a=3))
    assert shown(assigned) == {"y": {"a0"}, "x": {"a1"}, "m": {"a2"}}


# Uniform


def test_uniform_balances_over_all_topics_together() -> None:
    assigned = assign_uniform(subscribers(m="ab", n="ab"), counts(a=3, b=3))
    assert sorted(map(len, assigned.values())) == [3, 3]


def test_uniform_moves_only_what_a_newcomer_is_to_have() -> None:
    readers = subscribers(m="a", n="a")
    before = assign_uniform(readers, counts(a=6))
    grown = following(before, readers) | subscribers(o="a")
    after = assign_uniform(grown, counts(a=6))
    assert sorted(map(len, after.values())) == [2, 2, 2]
    assert after["m"] < before["m"]
    assert after["n"] < before["n"]


def test_uniform_gives_what_a_leaver_had_to_the_others_and_moves_nothing_else() -> None:
    readers = subscribers(m="a", n="a", o="a")
    before = assign_uniform(readers, counts(a=7))
    left = following(before, readers)
    del left["n"]
    after = assign_uniform(left, counts(a=7))
    assert all(before[member_id] < after[member_id] for member_id in left)


def test_uniform_gives_the_one_reader_of_a_topic_less_of_the_others() -> None:
    assigned = assign_uniform(subscribers(m="ab", n="b"), counts(a=2, b=4))
    assert shown(assigned)["m"] >= {"a0", "a1"}
    assert sorted(map(len, assigned.values())) == [3, 3]


def test_uniform_takes_a_topic_away_from_who_no_longer_reads_it() -> None:
    readers = {
        "m": Subscriber(topics=frozenset({topic_id("b")}), target=partitions("a0", "a1")),
        "n": Subscriber(topics=frozenset(map(topic_id, "ab"))),
    }
    assigned = assign_uniform(readers, counts(a=2, b=2))
    assert shown(assigned) == {"m": {"b0", "b1"}, "n": {"a0", "a1"}}


# Both


@pytest.mark.parametrize("name", ASSIGNORS)
def test_without_members_or_topics_there_is_nothing_to_assign(name: str) -> None:
    assert ASSIGNORS[name]({}, {}) == {}
    assert shown(ASSIGNORS[name](subscribers(m="", n=""), {})) == {"m": set(), "n": set()}


@st.composite
def groups(draw: st.DrawFn, *, alike: bool = False) -> dict[str, Subscriber]:
    """Members with any subscriptions, and any targets from before that no two of them share."""
    names = draw(st.lists(st.sampled_from("mnopqrs"), min_size=1, unique=True))
    one = st.frozensets(st.sampled_from(TOPICS))
    same = draw(one)
    free = draw(st.permutations([f"{topic}{index}" for topic in TOPICS for index in range(6)]))
    readers = {}
    for member_id in names:
        size = draw(st.integers(0, 5))
        readers[member_id] = Subscriber(
            instance_id=draw(st.sampled_from([None, f"i{member_id}"])),
            topics=frozenset(map(topic_id, same if alike else draw(one))),
            target=partitions(*free[:size]),
        )
        free = free[size:]
    return readers


sizes = st.fixed_dictionaries({topic_id(name): st.integers(1, 6) for name in TOPICS})


@pytest.mark.slow
@pytest.mark.parametrize("name", ASSIGNORS)
@given(readers=groups(), sizes=sizes)
def test_everything_that_is_read_is_assigned_once_to_somebody_who_reads_it(
    name: str, readers: dict[str, Subscriber], sizes: dict[Uuid, int]
) -> None:
    assigned = ASSIGNORS[name](readers, sizes)
    assert assigned.keys() == readers.keys()
    given_out = [one for target in assigned.values() for one in target]
    read = {topic for one in readers.values() for topic in one.topics}
    assert sorted(given_out) == sorted((one, index) for one in read for index in range(sizes[one]))
    for member_id, target in assigned.items():
        assert {topic for topic, _ in target} <= readers[member_id].topics


@pytest.mark.slow
@given(readers=groups(), sizes=sizes)
def test_range_is_even_in_every_topic(
    readers: dict[str, Subscriber], sizes: dict[Uuid, int]
) -> None:
    assigned = assign_range(readers, sizes)
    for topic in {topic for one in readers.values() for topic in one.topics}:
        loads = [
            sum(one[0] == topic for one in assigned[member_id])
            for member_id, reader in readers.items()
            if topic in reader.topics
        ]
        assert max(loads) - min(loads) <= 1


@pytest.mark.slow
@given(readers=groups(alike=True), sizes=sizes)
def test_uniform_is_even_where_all_read_the_same_and_moves_as_little_as_can_be(
    readers: dict[str, Subscriber], sizes: dict[Uuid, int]
) -> None:
    assigned = assign_uniform(readers, sizes)
    loads = [len(target) for target in assigned.values()]
    assert max(loads) - min(loads) <= 1
    valid = {
        member_id: {
            (topic, index)
            for topic, index in one.target
            if topic in one.topics and index < sizes[topic]
        }
        for member_id, one in readers.items()
    }
    kept = sum(len(valid[member_id] & assigned[member_id]) for member_id in readers)
    least, odd = divmod(sum(loads), len(readers))
    possible = sorted((len(one) for one in valid.values()), reverse=True)
    most = sum(min(size, least + (number < odd)) for number, size in enumerate(possible))
    assert kept == most


@pytest.mark.slow
@given(readers=groups(), sizes=sizes)
def test_uniform_leaves_no_partition_that_would_better_be_with_another_reader(
    readers: dict[str, Subscriber], sizes: dict[Uuid, int]
) -> None:
    assigned = assign_uniform(readers, sizes)
    for owner, target in assigned.items():
        for topic, _ in target:
            for other, reader in readers.items():
                if topic in reader.topics:
                    assert len(assigned[owner]) <= len(assigned[other]) + 1


@pytest.mark.slow
@pytest.mark.parametrize("name", ASSIGNORS)
@given(readers=groups(), sizes=sizes)
def test_assigning_again_moves_nothing(
    name: str, readers: dict[str, Subscriber], sizes: dict[Uuid, int]
) -> None:
    once = ASSIGNORS[name](readers, sizes)
    assert ASSIGNORS[name](following(once, readers), sizes) == once
