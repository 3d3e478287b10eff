"""The assignors of classic groups: Kafka's published examples, and what holds of any group."""

from collections import Counter
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.base.errors import UserError
from ottla.base.partitions import TopicPartition
from ottla.client.consumer.assignors import (
    ASSIGNORS,
    MemberSubscription,
    PartitionAssignor,
    Partitions,
    assignors_of,
    decode_sticky_user_data,
    encode_sticky_user_data,
)

Assigned = Mapping[str, Partitions]
RANGE, ROUND_ROBIN, STICKY, COOPERATIVE = ASSIGNORS.values()


def places(*texts: str) -> Partitions:
    return frozenset(TopicPartition(one[:-1], int(one[-1])) for one in texts)


def members(**topics: str) -> dict[str, MemberSubscription]:
    return {
        name: MemberSubscription(topics=frozenset(found.split())) for name, found in topics.items()
    }


def assign(
    assignor: PartitionAssignor, group: Mapping[str, MemberSubscription], counts: Mapping[str, int]
) -> Assigned:
    found = assignor.assign(group, counts)
    return {member_id: frozenset(partitions) for member_id, partitions in found.items()}


def continued(
    assignor: PartitionAssignor,
    assigned: Assigned,
    group: Mapping[str, MemberSubscription],
    generation: int = 1,
) -> dict[str, MemberSubscription]:
    """The group as it joins after an assignment."""
    return {
        member_id: MemberSubscription(
            topics=one.topics,
            owned=assigned.get(member_id, frozenset()),
            generation=generation if member_id in assigned else -1,
            user_data=assignor.user_data(assigned.get(member_id, frozenset()), generation),
        )
        for member_id, one in group.items()
    }


def test_range_gives_neighbours_and_the_first_members_one_more() -> None:
    found = assign(RANGE, members(b="t", a="t"), {"t": 3})
    assert found == {"a": places("t0", "t1"), "b": places("t2")}


def test_round_robin_deals_over_all_topics() -> None:
    found = assign(ROUND_ROBIN, members(a="t u", b="t u"), {"t": 3, "u": 3})
    assert found == {"a": places("t0", "t2", "u1"), "b": places("t1", "u0", "u2")}
    found = assign(ROUND_ROBIN, members(a="t", b="t u", c="t u v"), {"t": 1, "u": 2, "v": 3})
    assert found == {"a": places("t0"), "b": places("u0"), "c": places("u1", "v0", "v1", "v2")}


def test_static_members_come_first() -> None:
    group = {
        "a": MemberSubscription(topics=frozenset("t")),
        "z": MemberSubscription(topics=frozenset("t"), instance_id="i"),
    }
    for assignor in (RANGE, ROUND_ROBIN):
        assert assign(assignor, group, {"t": 1}) == {"a": frozenset(), "z": places("t0")}


def test_sticky_moves_what_a_new_member_needs_and_no_more() -> None:
    group = members(a="t", b="t")
    before = assign(STICKY, group, {"t": 6})
    after = assign(STICKY, continued(STICKY, before, group | members(c="t")), {"t": 6})
    assert {len(one) for one in after.values()} == {2}
    assert after["a"] < before["a"]
    assert after["b"] < before["b"]


def test_cooperative_takes_first_and_gives_in_the_next_round() -> None:
    group = members(a="t", b="t")
    alone = assign(COOPERATIVE, members(a="t"), {"t": 2})
    first = assign(COOPERATIVE, continued(COOPERATIVE, alone, group), {"t": 2})
    assert sorted(map(len, first.values())) == [0, 1]
    second = assign(COOPERATIVE, continued(COOPERATIVE, first, group), {"t": 2})
    assert sorted(map(len, second.values())) == [1, 1]
    assert second["a"] == first["a"]


def test_the_later_of_two_claims_is_believed_and_neither_of_two_alike() -> None:
    data = {"old": 1, "new": 2}
    group = {
        name: MemberSubscription(
            topics=frozenset("t"), user_data=encode_sticky_user_data(places("t0"), generation)
        )
        for name, generation in data.items()
    }
    assert assign(STICKY, group, {"t": 1}) == {"old": frozenset(), "new": places("t0")}


def test_user_data_of_sticky_members_is_kafkas() -> None:
    # Two topics with a name, partitions and at last the generation, as StickyAssignorUserData says.
    data = bytes.fromhex("00000001 0001 74 00000002 00000000 00000003 00000007")
    assert encode_sticky_user_data(places("t0", "t3"), 7) == data
    assert decode_sticky_user_data(data) == (places("t0", "t3"), 7)
    assert decode_sticky_user_data(data[:-4]) == (places("t0", "t3"), -1)
    assert decode_sticky_user_data(b"\1") == (frozenset(), -1)


def test_the_user_data_of_kafka_python_is_read() -> None:
    from kafka.coordinator.assignors.sticky.user_data import StickyAssignorUserData

    data = StickyAssignorUserData(previous_assignment=[("t", [0, 2])], generation=7).encode()
    assert decode_sticky_user_data(bytes(data)) == (places("t0", "t2"), 7)


def test_an_unknown_strategy_is_refused_with_those_there_are() -> None:
    with pytest.raises(UserError, match="one of range, roundrobin, sticky, cooperative-sticky"):
        assignors_of(["rang"])


groups = st.dictionaries(
    st.sampled_from("mnopqr"),
    st.frozensets(st.sampled_from("tuv"), min_size=1),
    min_size=1,
)
counts = st.dictionaries(st.sampled_from("tuv"), st.integers(1, 7))


def grouped(topics: Mapping[str, frozenset[str]]) -> dict[str, MemberSubscription]:
    return {name: MemberSubscription(topics=found) for name, found in topics.items()}


@pytest.mark.slow
@pytest.mark.parametrize("assignor", ASSIGNORS.values(), ids=ASSIGNORS)
@given(topics=groups, counts=counts)
def test_each_partition_that_somebody_reads_has_one_owner_who_reads_it(
    assignor: PartitionAssignor, topics: Mapping[str, frozenset[str]], counts: Mapping[str, int]
) -> None:
    found = assign(assignor, grouped(topics), counts)
    given_out = Counter(one for partitions in found.values() for one in partitions)
    wanted = {topic for one in topics.values() for topic in one} & counts.keys()
    expected = {TopicPartition(topic, n) for topic in wanted for n in range(counts[topic])}
    assert given_out == Counter(expected)
    assert all(one.topic in topics[member] for member in found for one in found[member])


@pytest.mark.slow
@pytest.mark.parametrize("assignor", [ROUND_ROBIN, STICKY, COOPERATIVE])
@given(names=st.sets(st.sampled_from("mnopqr"), min_size=1), counts=counts)
def test_members_that_read_the_same_have_as_much(
    assignor: PartitionAssignor, names: set[str], counts: Mapping[str, int]
) -> None:
    found = assign(assignor, grouped(dict.fromkeys(names, frozenset("tuv"))), counts)
    sizes = [len(one) for one in found.values()]
    assert max(sizes) - min(sizes) <= 1


@pytest.mark.slow
@pytest.mark.parametrize("assignor", [STICKY, COOPERATIVE])
@given(topics=groups, counts=counts)
def test_a_rebalance_of_an_unchanged_group_moves_nothing(
    assignor: PartitionAssignor, topics: Mapping[str, frozenset[str]], counts: Mapping[str, int]
) -> None:
    group = grouped(topics)
    before = assign(assignor, group, counts)
    assert assign(assignor, continued(assignor, before, group), counts) == before


@pytest.mark.slow
@given(before=groups, after=groups, counts=counts)
def test_cooperative_rounds_never_give_what_another_member_holds_and_come_to_an_end(
    before: Mapping[str, frozenset[str]],
    after: Mapping[str, frozenset[str]],
    counts: Mapping[str, int],
) -> None:
    group = grouped(after)
    held = assign(COOPERATIVE, grouped(before), counts)
    held = {name: held.get(name, frozenset()) for name in group}
    for generation in (1, 2, 3):
        found = assign(COOPERATIVE, continued(COOPERATIVE, held, group, generation), counts)
        for name, partitions in found.items():
            others = {one for other in held if other != name for one in held[other]}
            assert not partitions & others
        held = dict(found)
    given_out = Counter(one for partitions in held.values() for one in partitions)
    wanted = {topic for one in after.values() for topic in one} & counts.keys()
    assert given_out == Counter(
        TopicPartition(topic, n) for topic in wanted for n in range(counts[topic])
    )


@pytest.mark.slow
@given(
    names=st.sets(st.sampled_from("mnopqr"), min_size=1),
    counts=st.fixed_dictionaries(dict.fromkeys("tuv", st.integers(1, 7))),
)
def test_range_and_round_robin_answer_as_kafka_pythons_do(
    names: set[str], counts: Mapping[str, int]
) -> None:
    from kafka.coordinator.assignors.range import RangePartitionAssignor
    from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor

    group = grouped(dict.fromkeys(names, frozenset("tuv")))
    for own, other in ((RANGE, RangePartitionAssignor), (ROUND_ROBIN, RoundRobinPartitionAssignor)):
        joined = [_Joined(name, other.metadata(["t", "u", "v"])) for name in sorted(names)]
        theirs = other.assign(_Topics(counts), joined)
        expected = {
            name: frozenset(
                TopicPartition(topic, n)
                for topic, numbers in theirs[name].assigned_partitions
                for n in numbers
            )
            for name in names
        }
        assert assign(own, group, counts) == expected


class _Topics:
    """What kafka-python's assignors ask of a cluster."""

    def __init__(self, counts: Mapping[str, int]) -> None:
        self._counts = counts

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        return set(range(self._counts[topic])) if topic in self._counts else None


class _Joined:
    def __init__(self, member_id: str, metadata: object) -> None:
        self.member_id = member_id
        self.metadata = metadata
        self.group_instance_id = None
