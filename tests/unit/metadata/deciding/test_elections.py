"""Elections that are asked for, or are due."""

from dataclasses import replace

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.partitions import TopicPartition
from ottla.metadata.deciding.balancing import off_balance
from ottla.metadata.deciding.elections import elect_leaders, to_elect_for, unclean_elections
from ottla.metadata.image import RECOVERING
from tests.support.kraft_images import then
from tests.support.partition_images import TOPIC, cluster, partition, partitions_of

LED = partition((1, 2), (1, 2))
LED_BY_ANOTHER = partition((1, 2), (2, 1))
PREFERRED_IS_BEHIND = partition((1, 2), (2,))
LEADERLESS = partition((4, 3), (4,), leader=-1)
LOST = partition((4,), (4,), leader=-1)
IMAGE = cluster(LED, LED_BY_ANOTHER, PREFERRED_IS_BEHIND, LEADERLESS, LOST, fenced={4})


def place(index: int) -> TopicPartition:
    return TopicPartition(TOPIC, index)


def codes(outcomes: dict[TopicPartition, ApiError | None]) -> dict[int, ErrorCode | None]:
    return {one.partition: error and error.code for one, error in outcomes.items()}


def test_preferred_replicas_lead_where_they_are_able_to() -> None:
    missing = ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    expected = {0: ErrorCode.ELECTION_NOT_NEEDED, 1: None, 2: missing, 3: missing, 4: missing}
    records, outcomes = elect_leaders(IMAGE, [*map(place, range(5))], is_unclean=False)
    assert codes(dict(outcomes)) == expected
    assert [one.leader for one in partitions_of(then(IMAGE, records))] == [1, 1, 2, -1, -1]
    assert [*to_elect_for(IMAGE, is_unclean=False)] == [*map(place, range(1, 5))]


def test_an_unclean_election_is_for_partitions_without_a_leader() -> None:
    records, outcomes = elect_leaders(IMAGE, [*map(place, range(5))], is_unclean=True)
    expected = dict.fromkeys(range(3), ErrorCode.ELECTION_NOT_NEEDED)
    lost = {3: None, 4: ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE}
    assert codes(dict(outcomes)) == expected | lost
    one = partitions_of(then(IMAGE, records))[3]
    assert (one.leader, one.isr, one.recovery_state) == (3, (3,), RECOVERING)
    assert [*to_elect_for(IMAGE, is_unclean=True)] == [place(3), place(4)]


@pytest.mark.parametrize(
    ("unknown", "reason"),
    [(place(9), "No such partition as t-9"), (("x", 0), "No such topic as x")],
)
def test_what_is_not_there_is_named(unknown: tuple[str, int], reason: str) -> None:
    asked = TopicPartition(*unknown)
    records, outcomes = elect_leaders(IMAGE, [asked, asked], is_unclean=False)
    error = outcomes[asked]
    assert error is not None
    assert (records, error.code, error.message) == (
        [],
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        reason,
    )


def test_unclean_elections_are_due_where_settings_allow_them() -> None:
    assert unclean_elections(IMAGE, 10) == []
    topic = IMAGE.topics[TOPIC]._replace(configs={"unclean.leader.election.enable": "true"})
    allowed = replace(IMAGE, topics={TOPIC: topic})
    (record,) = unclean_elections(allowed, 10)
    assert partitions_of(then(allowed, [record]))[3].leader == 3
    assert unclean_elections(allowed, 0) == []


def test_leaderships_go_back_if_more_are_elsewhere_than_the_percentage_allows() -> None:
    image = cluster(LED, LED, LED, LED_BY_ANOTHER, partition((2, 1), (1, 2)))
    assert off_balance(image, 25) == [place(4)]
    assert off_balance(image, 24) == [place(3), place(4)]
    records, _ = elect_leaders(image, off_balance(image, 24), is_unclean=False)
    assert [one.leader for one in partitions_of(then(image, records))] == [1, 1, 1, 1, 2]


def test_a_preferred_replica_that_is_not_able_to_lead_is_left_alone() -> None:
    for image in (cluster(PREFERRED_IS_BEHIND), cluster(LED_BY_ANOTHER, fenced={1})):
        assert elect_leaders(image, off_balance(image, 0), is_unclean=False)[0] == []
