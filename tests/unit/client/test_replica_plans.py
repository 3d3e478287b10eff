"""What is said of a cluster's replicas, and where they are moved to: values, without brokers."""

from dataclasses import replace

import pytest

from ottla.base.errors import UserError
from ottla.base.partitions import TopicPartition
from ottla.cli.cluster.status import wrong
from ottla.client.administration.cluster_status import (
    BrokerStatus,
    ClusterStatus,
    PartitionStatus,
    complaints_of_cluster,
)
from ottla.client.administration.replica_plans import plan_drain, plan_given, plan_to
from ottla.client.administration.replicas import Reassignment
from ottla.diagnosis.words.remedies import remedy_text

ALL = (1, 2, 3)


def partition(
    index: int,
    replicas: tuple[int, ...],
    *,
    leader: int | None = None,
    in_sync: tuple[int, ...] | None = None,
    min_in_sync: int = 1,
    reassignment: Reassignment | None = None,
) -> PartitionStatus:
    return PartitionStatus(
        place=TopicPartition("t", index),
        leader=replicas[0] if leader is None else leader,
        leader_epoch=0,
        replicas=replicas,
        in_sync=replicas if in_sync is None else in_sync,
        min_in_sync=min_in_sync,
        ends={1: 100, 2: 90},
        reassignment=reassignment,
    )


def status(*partitions: PartitionStatus, live: tuple[int, ...] = ALL) -> ClusterStatus:
    return ClusterStatus(
        cluster_id="c",
        controller=1,
        brokers=tuple(
            BrokerStatus(
                broker=one,
                address=("h", 9000 + one) if one in live else None,
                replica_count=sum(one in each.replicas for each in partitions),
                leader_count=sum(one == each.leader for each in partitions),
                preferred_count=sum(one == each.preferred_leader for each in partitions),
                largest_lag=None,
            )
            for one in ALL
        ),
        partitions=partitions,
    )


def kinds(found: ClusterStatus) -> list[tuple[str, str]]:
    return [(one.kind, one.where) for one in complaints_of_cluster(found)]


def test_a_sound_cluster_has_nothing_to_complain_of() -> None:
    sound = status(partition(0, (1, 2)), partition(1, (2, 3)), partition(2, (3, 1)))
    assert sound.is_sound
    assert kinds(sound) == []


def test_what_is_wrong_with_a_partition_is_said_once() -> None:
    found = status(
        partition(0, ALL, leader=-1, in_sync=(3,)),
        partition(1, ALL, in_sync=(1, 2)),
        partition(2, ALL, in_sync=(1,), min_in_sync=2),
        live=(1, 2),
    )
    assert not found.is_sound
    assert kinds(found) == [
        ("missing_broker", "broker 3"),
        ("offline_partition", "t-0"),
        ("under_replicated", "t-1"),
        ("below_min_isr", "t-2"),
        ("uneven_leaders", "broker 1"),
    ]


def test_a_broker_that_should_lead_more_than_it_does_is_a_note() -> None:
    found = status(partition(0, (1, 2), leader=2), partition(1, (2, 1)))
    (complaint,) = complaints_of_cluster(found)
    assert (complaint.kind, complaint.is_note) == ("uneven_leaders", True)
    assert "1 of the 1 that it should lead are led by others" in complaint.what


def test_a_replica_that_its_broker_cannot_read_is_named() -> None:
    found = status(partition(0, (1, 2)), replace(partition(1, (2, 3)), unread=(2,)))
    (complaint,) = complaints_of_cluster(found)
    assert (complaint.kind, complaint.where) == ("unread_replica", "t-1")
    assert "broker 2" in complaint.what
    assert "the log of broker 2 says why" in remedy_text(complaint, "host:9092")
    assert wrong(found.partitions[1]) == "cannot be read on 2"


def test_a_broker_that_is_said_to_be_up_and_does_not_answer_is_named() -> None:
    found = status(partition(0, (2, 1)))
    first, second, third = found.brokers
    found = replace(found, brokers=(first, replace(second, is_silent=True), third))
    assert not found.is_sound
    (complaint,) = complaints_of_cluster(found)
    assert (complaint.kind, complaint.where) == ("silent_broker", "broker 2")
    assert "does not answer at h:9002, and leads 1 partitions" in complaint.what


def test_a_broker_that_is_down_is_named_in_what_mends_it() -> None:
    first, *_ = complaints_of_cluster(status(partition(0, ALL, in_sync=(1, 2)), live=(1, 2)))
    assert remedy_text(first, "host:9092").endswith("ottla cluster drain host:9092 3")


def test_replicas_that_are_still_to_come_are_not_missed() -> None:
    moving = Reassignment(replicas=(1, 2, 3), adding=(3,), removing=(1,))
    assert not partition(0, ALL, in_sync=(1, 2), reassignment=moving).is_under_replicated
    assert partition(0, ALL, in_sync=(1, 2), reassignment=moving).wanted_replicas == (2, 3)


def test_lag_is_unknown_where_a_broker_does_not_answer() -> None:
    found = partition(0, ALL)
    assert (found.lag(1), found.lag(2), found.lag(3)) == (0, 10, None)


# Plans


def test_a_broker_is_drained_to_those_that_have_fewest() -> None:
    partitions = [partition(0, (1, 2)), partition(1, (2, 1)), partition(2, (2, 3))]
    moves = plan_drain(partitions, 2, (1, 2, 3, 4))
    assert [(one.place.partition, one.after) for one in moves] == [
        (0, (1, 4)),
        (1, (3, 1)),
        (2, (4, 3)),
    ]


def test_a_broker_whose_partitions_have_no_other_place_is_not_drained() -> None:
    with pytest.raises(UserError, match="t-0 has 3 replicas, and without broker 3 there are 2"):
        plan_drain([partition(0, ALL)], 3, ALL)


def test_partitions_are_spread_over_the_named_brokers() -> None:
    partitions = [partition(index, (9,)) for index in range(6)]
    after = [one.after for one in plan_to(partitions, ALL, 2)]
    assert [one[0] for one in after] == [1, 2, 3, 1, 2, 3]
    assert after[0] != after[3], "the partitions of one leader have different followers"
    assert all(len(set(one)) == 2 for one in after)
    with pytest.raises(UserError, match="2 replicas need as many brokers"):
        plan_to(partitions, (1,), 2)


def test_what_is_where_it_is_to_be_is_not_moved() -> None:
    partitions = [partition(0, (1, 2))]
    assert plan_to(partitions, (1, 2)) == []
    assert plan_given(partitions, {TopicPartition("t", 0): (1, 2)}) == []
    with pytest.raises(UserError, match="there is no partition t-9"):
        plan_given(partitions, {TopicPartition("t", 9): (1,)})
