"""Partitions that move to other replicas."""

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.partitions import TopicPartition
from ottla.metadata.assignments import ReplicaAssignment
from ottla.metadata.deciding.reassignments import alter_reassignments, list_reassignments, to_list
from ottla.metadata.image import MetadataImage, PartitionImage
from tests.support.kraft_images import then
from tests.support.partition_images import (
    TOPIC,
    broker,
    cluster,
    directory,
    partition,
    partitions_of,
    with_brokers,
)

PLACE = TopicPartition(TOPIC, 0)


def moved(image: MetadataImage, *target: int) -> PartitionImage:
    return partitions_of(moving(image, *target))[0]


def moving(image: MetadataImage, *target: int) -> MetadataImage:
    records, outcomes = alter_reassignments(image, {PLACE: target})
    assert outcomes == {PLACE: None}
    return then(image, records)


def cancelled(image: MetadataImage) -> PartitionImage:
    records, outcomes = alter_reassignments(image, {PLACE: None})
    assert outcomes == {PLACE: None}
    return partitions_of(then(image, records))[0]


def refusal(
    image: MetadataImage, target: tuple[int, ...] | None, place: TopicPartition = PLACE
) -> ApiError:
    records, outcomes = alter_reassignments(image, {place: target}, may_change_count=False)
    assert records == []
    error = outcomes[place]
    assert error is not None
    return error


def test_a_move_waits_for_the_replicas_that_are_new() -> None:
    one = moved(cluster(partition((1, 2))), 2, 3)
    assert (one.replicas, one.adding, one.removing) == ((2, 3, 1), (3,), (1,))
    assert (one.isr, one.leader, one.leader_epoch) == ((1, 2), 1, 5)
    assert one.directories == (directory(2), directory(3), directory(1))


def test_a_move_to_replicas_in_sync_is_done_at_once() -> None:
    one = moved(cluster(partition((3, 1, 2))), 2, 3)
    assert (one.replicas, one.isr, one.adding, one.removing) == ((2, 3), (3, 2), (), ())
    assert (one.leader, one.leader_epoch) == (3, 6)
    other = moved(cluster(partition((1, 2, 3))), 2, 3)
    assert (other.leader, other.leader_epoch) == (2, 6)


def test_replicas_in_another_order_only_have_another_preferred_leader() -> None:
    one = moved(cluster(partition((1, 2, 3))), 3, 2, 1)
    assert (one.replicas, one.leader, one.leader_epoch) == ((3, 2, 1), 1, 5)
    same, outcomes = alter_reassignments(cluster(partition((1, 2))), {PLACE: (1, 2)})
    assert (same, outcomes) == ([], {PLACE: None})


def test_another_target_in_the_middle_of_a_move_ends_with_that_target() -> None:
    image = moving(cluster(partition((1, 2, 3))), 1, 2, 4)
    back = moved(image, 1, 2, 3)
    assert (back.replicas, back.isr) == ((1, 2, 3), (1, 2, 3))
    assert (back.adding, back.removing) == ((), ())
    wider = moved(image, 1, 2, 3, 4)
    assert (wider.replicas, wider.adding, wider.removing) == ((1, 2, 3, 4), (4,), ())


def test_a_move_is_cancelled() -> None:
    image = moving(cluster(partition((1, 2))), 3, 4)
    one = cancelled(image)
    assert (one.replicas, one.isr, one.leader) == ((1, 2), (1, 2), 1)
    assert (one.adding, one.removing) == ((), ())
    assert refusal(cluster(partition((1, 2))), None).code is ErrorCode.NO_REASSIGNMENT_IN_PROGRESS


def test_a_move_whose_origin_is_not_in_sync_is_cancelled_only_if_losses_are_allowed() -> None:
    ahead = partition((3, 4, 1, 2), (3,), adding=(3, 4), removing=(1, 2))
    assert refusal(cluster(ahead), None).code is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    one = cancelled(cluster(ahead, configs={"unclean.leader.election.enable": "true"}))
    assert (one.replicas, one.isr, one.leader) == ((1, 2), (1,), 1)
    none_left = cluster(partition((3,), (3,), adding=(3,)))
    assert "contains all replicas" in (refusal(none_left, None).message or "")


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        ((), "an empty replica list"),
        ((1, 9), "broker 9, but no such broker is registered"),
        ((1, 1), "the broker 1 more than once"),
        ((1, 4), "broker 4, but all its log directories are cordoned"),
    ],
)
def test_a_target_that_cannot_be_is_refused(target: tuple[int, ...], reason: str) -> None:
    image = cluster(partition((1, 2)))
    image = with_brokers(image, _4=broker(4, cordoned=(directory(4),)))
    error = refusal(image, target)
    assert error.code is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert reason in (error.message or "")


def test_another_number_of_replicas_can_be_refused() -> None:
    error = refusal(cluster(partition((1, 2))), (1, 2, 3))
    assert (error.code, error.message) == (
        ErrorCode.INVALID_REPLICATION_FACTOR,
        "The replication factor is changed from 2 to 3",
    )


def test_what_is_not_there_is_named() -> None:
    image = cluster(partition((1, 2)))
    for place, reason in (
        (TopicPartition("x", 0), "Unable to find a topic named x."),
        (TopicPartition(TOPIC, 5), "Unable to find partition t:5."),
    ):
        error = refusal(image, (1, 2), place)
        assert (error.code, error.message) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, reason)


def test_moves_under_way_are_listed() -> None:
    image = moving(cluster(partition((1, 2)), partition((1, 2))), 2, 3)
    expected = {PLACE: ReplicaAssignment((2, 3, 1), (3,), (1,))}
    assert list_reassignments(image, [*to_list(image)]) == expected
    others = [TopicPartition(TOPIC, 1), TopicPartition("x", 0)]
    assert list_reassignments(image, [PLACE, *others]) == expected
    assert list_reassignments(image, others) == {}
