"""Brokers of a cluster that have not heard yet who else is in it."""

from collections.abc import Callable, Sequence
from itertools import count

import pytest

import ottla
from ottla.client.administration.admin import Admin
from ottla.client.connecting.cluster import NEW_TOPIC_PAUSES_S, Cluster
from tests.support.answering_brokers import BROKERS, AnsweringBrokers

QUESTIONS = [Admin.describe_cluster, Admin.list_partition_reassignments]


def heard_after(looks: int) -> Callable[[int], Sequence[int]]:
    """They know nobody, not even themselves, when they are asked so often."""
    numbers = count(1)
    return lambda _: BROKERS if next(numbers) > looks else ()


@pytest.mark.parametrize("ask", QUESTIONS)
def test_a_broker_that_knows_no_brokers_yet_is_asked_again(
    ask: Callable[[Admin], object],
) -> None:
    ask(AnsweringBrokers(known=heard_after(3)).admin())


@pytest.mark.parametrize("ask", QUESTIONS)
def test_a_broker_that_never_hears_of_its_cluster_is_named(
    ask: Callable[[Admin], object],
) -> None:
    admin = AnsweringBrokers(known=lambda _: ()).admin()
    with pytest.raises(ottla.UserError, match="the broker knows no brokers of its cluster yet"):
        ask(admin)


def test_a_broker_that_has_heard_of_nobody_is_asked_again_for_the_cluster() -> None:
    """The broker that says who the controller is need not be the controller."""
    heard = heard_after(2)
    brokers = AnsweringBrokers(known=lambda one: BROKERS if one == 1 else heard(one), controller=2)
    assert sorted(brokers.admin().describe_cluster().brokers) == [1, 2, 3]


def test_each_broker_is_asked_itself_whom_it_knows() -> None:
    admin = AnsweringBrokers(known=lambda one: (1, 2) if one == 2 else BROKERS).admin()
    found = [sorted(admin.describe_cluster(broker=one).brokers) for one in BROKERS]
    assert found == [[1, 2, 3], [1, 2], [1, 2, 3]]


def test_a_broker_that_has_joined_since_is_found_by_its_id() -> None:
    admin = AnsweringBrokers(
        known=lambda one: (1, 2) if one == 1 else BROKERS, controller=2
    ).admin()
    assert sorted(admin.describe_cluster(broker=3).brokers) == [1, 2, 3]


def test_the_controller_is_asked_for_topics_and_others_where_it_is_down() -> None:
    brokers = AnsweringBrokers(lambda one: (one,), controller=3)

    def asked() -> int:
        (topic,) = brokers.admin().describe_topics(["orders"])
        return topic.partitions[0].replicas[0]

    assert asked() == 3
    brokers.down = {3}
    assert asked() == 1


@pytest.mark.parametrize("controller", BROKERS)
@pytest.mark.parametrize("knows", BROKERS)
def test_a_topic_is_found_as_soon_as_one_broker_has_heard_of_it(
    knows: int, controller: int
) -> None:
    brokers = AnsweringBrokers(controller=controller, has_heard=lambda one: one == knows)
    cluster = Cluster([("b", 1)], sleep=lambda _: None, topics=[], transport=brokers)
    assert list(cluster.look_up(["orders"])) == ["orders"]
    cluster = Cluster([("b", 1)], sleep=lambda _: None, topics=[], transport=brokers)
    assert cluster.topic("orders").leaders == {0: 1}


def test_a_topic_of_which_no_broker_has_heard_is_missing() -> None:
    brokers = AnsweringBrokers(has_heard=lambda _: False)
    cluster = Cluster([("b", 1)], sleep=lambda _: None, topics=[], transport=brokers)
    brokers.down = {2}
    assert cluster.look_up(["orders"]) == {}
    with pytest.raises(ottla.UserError, match="there is no topic orders"):
        cluster.topic("orders")


@pytest.mark.parametrize("rounds", [0, 1, 2, 3])
def test_a_topic_of_which_no_broker_has_heard_is_looked_for_again(rounds: int) -> None:
    slept: list[float] = []
    brokers = AnsweringBrokers(has_heard=lambda _: len(slept) >= rounds)
    cluster = Cluster([("b", 1)], sleep=slept.append, topics=[], transport=brokers)
    found = cluster.look_for("orders")
    assert found is not None
    assert found.leaders == {0: 1}
    assert slept == [*NEW_TOPIC_PAUSES_S][:rounds]


def test_a_topic_that_does_not_exist_is_missing_after_less_than_a_second() -> None:
    slept: list[float] = []
    brokers = AnsweringBrokers(has_heard=lambda _: False)
    cluster = Cluster([("b", 1)], sleep=slept.append, topics=[], transport=brokers)
    assert cluster.look_for("orders") is None
    assert 0 < sum(slept) < 1


def test_one_broker_by_itself_is_asked_once_for_a_topic() -> None:
    slept: list[float] = []
    brokers = AnsweringBrokers(known=lambda _: (1,), has_heard=lambda _: False)
    cluster = Cluster([("b", 1)], sleep=slept.append, topics=[], transport=brokers)
    assert cluster.look_for("orders") is None
    assert slept == []


PLACE = ottla.TopicPartition("orders", 0)


def test_a_leader_that_has_not_heard_of_its_partition_is_asked_again() -> None:
    looks = count()
    admin = AnsweringBrokers(leads=lambda: next(looks) >= 2).admin()
    assert admin.list_offsets([PLACE])[PLACE].offset == 7


def test_a_leader_that_never_hears_of_its_partition_is_said_in_its_own_words() -> None:
    admin = AnsweringBrokers(leads=lambda: False).admin()
    with pytest.raises(ottla.UserError, match="orders-0: UNKNOWN_TOPIC_OR_PARTITION"):
        admin.list_offsets([PLACE])


def test_a_client_that_asks_again_which_topics_there_are_asks_the_controller() -> None:
    brokers = AnsweringBrokers(controller=3)
    cluster = Cluster([("b", 1)], sleep=lambda _: None, topics=[], transport=brokers)
    cluster.refresh()
    cluster.refresh()
    assert brokers.called == [1, 3]
    brokers.down = {3}
    cluster.refresh()
    cluster.refresh()
    assert brokers.called == [1, 3, 3, 1, 1]


def test_an_admin_waits_once_for_a_leader_that_is_down_and_again_after_it_came_back() -> None:
    """A list of groups asks for the ends of each one's partitions."""
    brokers = AnsweringBrokers(controller=2)
    admin = brokers.admin()

    def calls_in_vain() -> int:
        before = brokers.called.count(1)
        with pytest.raises(ottla.UnreachableError):
            admin.list_offsets([PLACE])
        return brokers.called.count(1) - before

    admin.describe_cluster(broker=2)
    brokers.down = {1}
    assert calls_in_vain() > 5
    assert calls_in_vain() == calls_in_vain() == 2
    brokers.down = set()
    assert admin.list_offsets([PLACE])[PLACE].offset == 7
    brokers.down = {1}
    admin._cluster.disconnect()
    assert calls_in_vain() > 5


def test_other_clients_wait_for_it_each_time() -> None:
    brokers = AnsweringBrokers(controller=2)
    with Cluster([("b", 2)], sleep=lambda _: None, clock=lambda: 0.0, transport=brokers) as cluster:
        brokers.down = {1}
        for _ in range(2):
            before = len(brokers.called)
            with pytest.raises(ottla.UnreachableError):
                cluster.again(lambda: cluster.broker(1))
            assert brokers.called[before:].count(1) > 5
