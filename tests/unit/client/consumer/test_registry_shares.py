"""The rebalancing algorithm of Kafka 0.7: everybody computes the same, and every partition has one
owner."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.base.partitions import TopicPartition
from ottla.client.consumer.registry_shares import share, shares

names = st.lists(st.text("0123456789-", min_size=1, max_size=5), unique=True, max_size=30)


def test_each_gets_as_many_and_the_first_ones_what_is_left() -> None:
    partitions = [f"0-{number}" for number in range(8)]
    assert share(partitions, ["b", "a", "c"], "a") == ["0-0", "0-1", "0-2"]
    assert share(partitions, ["b", "a", "c"], "b") == ["0-3", "0-4", "0-5"]
    assert share(partitions, ["b", "a", "c"], "c") == ["0-6", "0-7"]
    assert share(partitions, ["b", "c"], "a") == []


def test_partitions_of_one_broker_are_together_and_sorted_as_text() -> None:
    partitions = ["2-0", "10-1", "2-2", "10-3"]
    assert share(partitions, ["a", "b"], "a") == ["10-1", "10-3"]
    assert share(partitions, ["a", "b"], "b") == ["2-0", "2-2"]


@pytest.mark.slow
@given(names, st.lists(st.text(min_size=1), unique=True, min_size=1, max_size=9))
def test_every_partition_has_one_owner(partitions: list[str], group: list[str]) -> None:
    owned = [one for consumer in group for one in share(partitions, group, consumer)]
    assert sorted(owned) == sorted(partitions)


def test_topics_are_shared_by_those_that_read_them() -> None:
    topics = {"t": {0: 1, 1: 2}, "u": {0: 1}, "v": {0: 1}}
    consumers = {"t": ["me", "you"], "u": ["me"], "v": ["you"]}
    assert shares(topics, consumers, "me") == {
        TopicPartition("t", 0): "1-0",
        TopicPartition("u", 0): "1-0",
    }
