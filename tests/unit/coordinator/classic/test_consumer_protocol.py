"""Subscriptions and assignments, as consumers of all ages send them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.base.errors import ProtocolError
from ottla.coordinator.classic.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)

SUBSCRIPTION = ConsumerProtocolSubscription(
    topics=["a", "b"],
    user_data=b"mine",
    owned_partitions=[TopicPartition(topic="a", partitions=[0, 2])],
    generation_id=4,
    rack_id="r1",
)


def test_the_newest_subscription_reads_back_whole() -> None:
    assert decode_subscription(encode_subscription(SUBSCRIPTION)) == SUBSCRIPTION


@pytest.mark.parametrize("version", [0, 1, 2])
def test_older_subscriptions_leave_out_what_they_lack(version: int) -> None:
    again = decode_subscription(encode_subscription(SUBSCRIPTION, version))
    assert (again.topics, again.user_data) == (["a", "b"], b"mine")
    assert again.owned_partitions == (SUBSCRIPTION.owned_partitions if version >= 1 else [])
    assert again.generation_id == (4 if version >= 2 else -1)
    assert again.rack_id is None


def test_an_assignment_is_written_as_kafka_does() -> None:
    assignment = ConsumerProtocolAssignment(
        assigned_partitions=[TopicPartition(topic="t", partitions=[1])]
    )
    data = encode_assignment(assignment)
    assert data == b"\0\3\0\0\0\1\0\1t\0\0\0\1\0\0\0\1\xff\xff\xff\xff"
    assert decode_assignment(data) == assignment


def test_a_version_from_the_future_is_read_as_the_newest() -> None:
    data = b"\0\x63" + encode_subscription(SUBSCRIPTION)[2:] + b"something new"
    assert decode_subscription(data) == SUBSCRIPTION


@given(st.binary(max_size=60))
def test_garbage_is_read_or_refused_with_our_error(data: bytes) -> None:
    for decode in (decode_subscription, decode_assignment):
        try:
            decode(data)
        except ProtocolError:
            continue
