"""The assignor of share groups: loads are even, nothing is left out, and little moves."""

import random

import pytest

from ottla.base.ids import Uuid
from ottla.coordinator.consumer.assignors import Assignment, Subscriber
from ottla.coordinator.share.assignor import assign_simple

A, B, C = (Uuid(bytes([one]) * 16) for one in (1, 2, 3))


def assign(
    topics: dict[str, set[Uuid]],
    counts: dict[Uuid, int],
    before: Assignment[Uuid] | None = None,
) -> Assignment[Uuid]:
    targets = before or {}
    subscribers = {
        member_id: Subscriber(topics=frozenset(its), target=targets.get(member_id, frozenset()))
        for member_id, its in topics.items()
    }
    return assign_simple(subscribers, {one: range(count) for one, count in counts.items()})


def sizes(assignment: Assignment[Uuid]) -> list[int]:
    return sorted(map(len, assignment.values()))


@pytest.mark.parametrize(
    ("member_count", "partition_count", "expected"),
    [
        (1, 4, [4]),
        (2, 4, [2, 2]),
        (3, 4, [1, 1, 2]),
        (4, 4, [1, 1, 1, 1]),
        (3, 2, [1, 1, 2]),
        (6, 4, [1, 1, 1, 1, 2, 2]),
        (8, 2, [1] * 8),
        (5, 1, [1] * 5),
    ],
)
def test_members_share_partitions_if_there_are_more_of_them(
    member_count: int, partition_count: int, expected: list[int]
) -> None:
    names = [f"m{number}" for number in range(member_count)]
    assert sizes(assign({one: {A} for one in names}, {A: partition_count})) == expected


def test_a_member_without_a_topic_that_is_there_has_nothing() -> None:
    found = assign({"a": {A}, "b": {B}, "c": set()}, {A: 2, B: 0})
    assert found == {"a": frozenset({(A, 0), (A, 1)}), "b": frozenset(), "c": frozenset()}


def test_a_member_that_comes_takes_no_more_than_its_share() -> None:
    before = assign({"a": {A}, "b": {A}}, {A: 6})
    after = assign({"a": {A}, "b": {A}, "c": {A}}, {A: 6}, before)
    assert sizes(after) == [2, 2, 2]
    for member_id in ("a", "b"):
        assert after[member_id] < before[member_id]


def test_what_a_member_leaves_goes_to_the_others_which_keep_theirs() -> None:
    before = assign({"a": {A}, "b": {A}, "c": {A}}, {A: 6})
    after = assign({"a": {A}, "b": {A}}, {A: 6}, before)
    assert sizes(after) == [3, 3]
    assert all(before[one] < after[one] for one in ("a", "b"))


@pytest.mark.parametrize("seed", range(40))
def test_each_partition_and_each_member_has_its_share(seed: int) -> None:
    chance = random.Random(seed)
    before: Assignment[Uuid] = {}
    for _ in range(6):
        counts = {topic: chance.randint(0, 7) for topic in (A, B, C)}
        topics = {
            f"m{number}": set(chance.sample([A, B, C], chance.randint(0, 3)))
            for number in range(chance.randint(0, 9))
        }
        found = assign(topics, counts, before)
        assert found.keys() == topics.keys()
        for topic, count in counts.items():
            readers = [one for one in topics if topic in topics[one]]
            for index in range(count):
                members = [one for one in found if (topic, index) in found[one]]
                assert set(members) <= set(readers)
                assert len(members) == -(-len(readers) // count)
        for member_id, its in found.items():
            assert len(its) >= any(counts[one] for one in topics[member_id])
            for other, others in found.items():
                movable = [one for one in its - others if one[0] in topics[other]]
                assert not movable or len(its) <= len(others) + 1
        assert assign(topics, counts, found) == found, "what is even stays"
        before = found
