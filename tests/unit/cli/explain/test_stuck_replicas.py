"""Why a replica is not in sync, judged on what brokers say, and in words."""

from dataclasses import replace

import pytest

from ottla.base.partitions import TopicPartition
from ottla.cli.explain.stuck_replicas import replica_fields, replica_lines, why_text
from ottla.client.administration.cluster_status import BrokerStatus, ClusterStatus, PartitionStatus
from ottla.client.administration.replicas import Reassignment
from ottla.client.administration.stuck_replicas import StuckReplica, Throttle, Why, judge

ORDERS = TopicPartition("orders", 0)
THROTTLE = Throttle(broker=3, setting="follower.replication.throttled.rate", rate=10_240)


def judged(
    *,
    up: tuple[int, ...] = (1, 2, 3),
    leader: int = 1,
    ends: dict[int, int] | None = None,
    offline: tuple[int, ...] = (),
    throttle: Throttle | None = None,
    adding: tuple[int, ...] = (),
) -> StuckReplica:
    """The replica of broker 3."""
    partition = PartitionStatus(
        place=ORDERS,
        leader=leader,
        leader_epoch=4,
        replicas=(1, 2, 3),
        in_sync=(1, 2),
        min_in_sync=2,
        ends={1: 100, 2: 100, 3: 90} if ends is None else ends,
        reassignment=Reassignment(replicas=(1, 2, 3), adding=adding, removing=()),
        offline=offline,
    )
    brokers = tuple(
        BrokerStatus(
            broker=one,
            address=("host", 9092) if one in up else None,
            replica_count=1,
            leader_count=0,
            preferred_count=0,
            largest_lag=None,
            is_silent=one == leader and one not in partition.ends,
        )
        for one in (1, 2, 3)
    )
    status = ClusterStatus(cluster_id="c", controller=1, brokers=brokers, partitions=(partition,))
    return judge(partition, 3, status, throttle)


@pytest.mark.parametrize(
    ("facts", "why", "sentence"),
    [
        ({"up": (1, 2), "ends": {1: 100}}, Why.NOT_UP, "the broker is not up"),
        ({"leader": -1}, Why.NO_LEADER, "no leader to follow; last in sync: 1, 2"),
        ({"offline": (3,)}, Why.DIRECTORY_OFFLINE, "is offline, or its log damaged"),
        ({}, Why.BEHIND, "it is 10 offsets behind"),
        ({"throttle": THROTTLE}, Why.THROTTLED, "throttled to 10.0 KiB/s by follower.replication"),
        ({"ends": {1: 100, 3: 100}}, Why.CAUGHT_UP, "leader 1 has not added it yet"),
        ({"ends": {1: 100}}, Why.UNKNOWN, "its broker does not report its log end offset"),
    ],
)
def test_each_reason_has_a_sentence_and_a_way_out(facts: dict, why: Why, sentence: str) -> None:
    found = judged(**facts)
    assert found.why is why
    ((first, *ways),) = replica_lines([found], "host:9092")
    assert first.startswith("orders-0: the replica of broker 3 is not in sync: ")
    assert sentence in first
    assert ways


def test_a_leader_that_does_not_answer_is_named_before_its_session_has_ended() -> None:
    found = judged(leader=3, ends={1: 100})
    assert found.why is Why.SILENT_LEADER
    ((first, *ways),) = replica_lines([found], "host:9092")
    assert first == "orders-0: its leader, broker 3, does not answer; in sync: 1, 2"
    assert ways[0].startswith("  - start broker 3")


def test_what_is_the_same_of_many_partitions_is_said_once() -> None:
    found = judged(leader=3, ends={1: 100})
    many = [replace(found, place=TopicPartition("orders", index)) for index in range(500)]
    ((first, *ways),) = replica_lines(many, "host:9092")
    assert first == (
        "500 partitions (orders-0, orders-1, orders-2, ...): its leader, broker 3, does not "
        "answer; in sync: 1, 2"
    )
    assert len(ways) == 2
    other = replace(found, place=TopicPartition("orders", 500), in_sync=(1,))
    assert len(replica_lines([*many, other], "host:9092")) == 2


def test_a_replica_that_a_move_adds_is_named_so() -> None:
    ((first, *_),) = replica_lines([judged(adding=(3,))], "host:9092")
    assert "broker 3 is being added, and is not in sync" in first


def test_a_throttle_does_not_explain_a_replica_that_has_all() -> None:
    found = judged(ends={1: 100, 3: 100}, throttle=THROTTLE)
    assert (found.why, found.throttle) == (Why.CAUGHT_UP, None)


def test_without_a_leader_and_an_isr_those_that_may_lead_are_named() -> None:
    partition = PartitionStatus(
        place=ORDERS,
        leader=-1,
        leader_epoch=4,
        replicas=(1, 2, 3),
        in_sync=(),
        min_in_sync=2,
        ends={},
        eligible=(2,),
    )
    here = BrokerStatus(
        broker=3,
        address=("host", 9092),
        replica_count=1,
        leader_count=0,
        preferred_count=0,
        largest_lag=None,
    )
    status = ClusterStatus(cluster_id="c", controller=1, brokers=(here,), partitions=(partition,))
    stuck = judge(partition, 3, status)
    assert why_text(stuck).endswith("last in sync: 2")


def test_the_object_has_the_lag_and_the_limit() -> None:
    fields = replica_fields(judged(throttle=THROTTLE), "host:9092")
    assert (fields["why"], fields["lag"], fields["throttled_rate"]) == ("throttled", 10, 10_240)
    assert fields["throttled_by"] == "follower.replication.throttled.rate of broker 3"
    assert fields["ways_out"] == [
        "wait, or allow more: ottla configs set host:9092 --broker 3 "
        "follower.replication.throttled.rate=BYTES"
    ]
