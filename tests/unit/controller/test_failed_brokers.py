"""What the controller asks and says when a broker dies: little for each partition."""

from collections import Counter
from dataclasses import replace

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.base.partitions import TopicPartition
from ottla.controller.events import ControlledShutdown, CreateTopic
from ottla.controller.operations import Get, Set
from ottla.controller.requests import LeaderAndIsr, UpdateMetadata
from ottla.zookeeper import paths
from ottla.zookeeper.entities import encode_config
from ottla.zookeeper.topics import NO_LEADER, PartitionState, decode_state, encode_state
from tests.support.controllers import LonelyController, cluster_of

COUNT = 6
PLACES = [TopicPartition("orders", index) for index in range(COUNT)]
STATES = [paths.state_path(place) for place in PLACES]


@pytest.fixture
def one() -> LonelyController:
    """The controller is broker 0; broker 1 leads four of six partitions, and all are in sync."""
    controller = LonelyController(cluster_of(0, 1, 2))
    assignment = {index: (1, 0, 2) if index < 4 else (2, 0, 1) for index in range(COUNT)}
    topic = CreateTopic(pending_id=1, topic="orders", assignment=assignment)
    assert controller.ask(topic).error is ErrorCode.NONE
    controller.outgoing.clear()
    controller.asked.clear()
    return controller


def state(one: LonelyController, index: int) -> PartitionState:
    return decode_state(PLACES[index], one.zookeeper.content(STATES[index]))


def write(one: LonelyController, index: int, *isr: int) -> None:
    """As its leader does by itself, before 2.7."""
    content = encode_state(replace(state(one, index), isr=isr))
    one.zookeeper.apply(Set(STATES[index], content))


def kill(one: LonelyController, broker: int) -> None:
    one.zookeeper.delete(paths.broker_path(broker))
    one.run()


def test_no_known_state_is_read_and_each_is_written_once(one: LonelyController) -> None:
    kill(one, 1)
    read = [its for its in one.asked if isinstance(its, Get) and its.path in STATES]
    written = [its.path for its in one.asked if isinstance(its, Set)]
    assert not read
    assert sorted(written) == STATES
    assert [(state(one, index).leader, state(one, index).isr) for index in (0, 5)] == [
        (0, (0, 2)),
        (2, (2, 0)),
    ]


def test_each_broker_hears_once_of_each_partition(one: LonelyController) -> None:
    kill(one, 1)
    orders: Counter[tuple[int, TopicPartition]] = Counter()
    known: dict[TopicPartition, tuple[int, tuple[int, ...]]] = {}
    for its in one.outgoing:
        if isinstance(its.order, LeaderAndIsr):
            orders.update((its.broker, place) for place in its.order.orders)
        elif isinstance(its.order, UpdateMetadata) and its.broker == 2:
            found = its.order.partitions
            known |= {
                place: (found[place].image.leader, found[place].image.offline) for place in found
            }
    assert orders == Counter((broker, place) for broker in (0, 2) for place in PLACES)
    assert known == {place: (0 if place.partition < 4 else 2, (1,)) for place in PLACES}


def test_what_a_leader_wrote_by_itself_is_read_before_a_leader_is_chosen(
    one: LonelyController,
) -> None:
    write(one, 0, 1, 2)
    kill(one, 1)
    assert (state(one, 0).leader, state(one, 0).isr) == (2, (2,))
    assert (state(one, 1).leader, state(one, 1).isr) == (0, (0, 2))


def test_a_follower_that_its_leader_let_in_by_itself_can_lead(one: LonelyController) -> None:
    for isr in ((1,), (1, 2)):
        write(one, 0, *isr)
        if isr == (1,):  # what the controller knows
            known = one.machine.context.leaderships
            path = one.zookeeper.nodes[STATES[0]]
            known[PLACES[0]] = replace(known[PLACES[0]], state=state(one, 0), version=path.version)
    kill(one, 1)
    assert (state(one, 0).leader, state(one, 0).isr) == (2, (2,))


def test_a_dead_follower_that_its_leader_let_in_by_itself_leaves_the_isr(
    one: LonelyController,
) -> None:
    known = one.machine.context.leaderships
    known[PLACES[5]] = replace(known[PLACES[5]], state=replace(known[PLACES[5]].state, isr=(2, 0)))
    kill(one, 1)
    assert (state(one, 5).leader, state(one, 5).isr) == (2, (2, 0))


def test_a_partition_without_a_live_member_of_its_isr_is_led_by_nobody(
    one: LonelyController,
) -> None:
    kill(one, 2)
    kill(one, 0)
    kill(one, 1)
    assert {state(one, index).leader for index in range(COUNT)} == {NO_LEADER}


def test_an_unclean_election_goes_by_what_the_registry_says(one: LonelyController) -> None:
    content = encode_config({"unclean.leader.election.enable": "true"})
    one.zookeeper.apply(Set(paths.config_path("topics/orders"), content))
    known = one.machine.context.leaderships
    known[PLACES[0]] = replace(known[PLACES[0]], state=replace(known[PLACES[0]].state, isr=(1,)))
    write(one, 0, 1, 2)
    kill(one, 1)
    assert (state(one, 0).leader, state(one, 0).isr) == (2, (2,)), "0 was not in sync"


def test_a_broker_about_to_stop_hears_who_leads_instead_of_the_dead(
    one: LonelyController,
) -> None:
    epoch = one.machine.context.brokers[2].epoch
    one.ask(ControlledShutdown(pending_id=1, broker=2, broker_epoch=epoch))
    one.outgoing.clear()
    kill(one, 1)
    heard = [
        its.order.orders[PLACES[0]].state.leader
        for its in one.outgoing
        if its.broker == 2 and isinstance(its.order, LeaderAndIsr) and PLACES[0] in its.order.orders
    ]
    assert heard == [0]
