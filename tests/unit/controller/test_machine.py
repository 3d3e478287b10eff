"""The controller's answers and refusals, event by event."""

from dataclasses import replace

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.base.ids import Uuid
from ottla.base.partitions import TopicPartition
from ottla.controller.channels import Channels
from ottla.controller.events import (
    AllocateProducerIds,
    AlteredIsr,
    AlterPartition,
    AlterReassignments,
    ControlledShutdown,
    CreatePartitions,
    CreateTopic,
    DeleteTopic,
    DeletionAnswered,
    Elect,
    ElectLeaders,
    LeaderAndIsrAnswered,
    ListReassignments,
    RebalanceDue,
    SessionLost,
    UpdateFeature,
)
from ottla.controller.operations import Create, Result, Set
from ottla.controller.requests import LeaderAndIsr, StopReplica
from ottla.zookeeper import paths
from ottla.zookeeper.controllers import ProducerIdBlock, decode_controller_epoch
from ottla.zookeeper.entities import encode_config
from ottla.zookeeper.notices import (
    encode_log_dir_event,
    encode_partitions,
    encode_reassignment,
)
from ottla.zookeeper.topics import (
    NO_LEADER,
    RECOVERING,
    PartitionState,
    ReplicaAssignment,
    decode_state,
    decode_topic,
    encode_state,
    encode_topic,
)
from tests.support.controllers import LonelyController, cluster_of, register

P0 = TopicPartition("orders", 0)
NONE = ErrorCode.NONE


@pytest.fixture
def one() -> LonelyController:
    """Of three brokers; orders-0 is on all of them, 0 leads."""
    controller = LonelyController(cluster_of(0, 1, 2))
    topic = CreateTopic(
        pending_id=1,
        topic="orders",
        assignment={0: (0, 1, 2)},
        topic_id=Uuid(bytes(15) + b"\1"),
        settings={"retention.ms": "-1"},
    )
    assert controller.ask(topic).error is NONE
    controller.outgoing.clear()
    return controller


def state(one: LonelyController, partition: TopicPartition = P0) -> PartitionState:
    return decode_state(partition, one.zookeeper.content(paths.state_path(partition)))


def kill(one: LonelyController, *brokers: int) -> None:
    for broker in brokers:
        one.zookeeper.delete(paths.broker_path(broker))
    one.run()


def alter(one: LonelyController, broker: int = 0, **fields: object) -> AlterPartition:
    known = one.machine.context.leaderships[P0]
    wanted = {
        "topic": "orders", "partition": 0, "leader_epoch": known.state.leader_epoch,
        "partition_epoch": known.version, "isr": (0, 1), **fields,
    }  # fmt: skip
    return AlterPartition(
        pending_id=2,
        broker=broker,
        broker_epoch=one.machine.context.brokers[broker].epoch,
        changes=(AlteredIsr(**wanted),),  # type: ignore[arg-type]
    )


def shrink(one: LonelyController, *isr: int) -> None:
    assert one.ask(alter(one, isr=isr)).altered[0].error is NONE


def deleted(one: LonelyController, broker: int) -> DeletionAnswered:
    epoch = one.machine.context.brokers[broker].epoch
    return DeletionAnswered(broker=broker, broker_epoch=epoch, errors={P0: NONE})


def failed_disk(one: LonelyController, broker: int) -> LeaderAndIsrAnswered:
    epoch = one.machine.context.brokers[broker].epoch
    errors = {P0: ErrorCode.KAFKA_STORAGE_ERROR}
    return LeaderAndIsrAnswered(broker=broker, broker_epoch=epoch, errors=errors)


def test_a_new_topic_is_led_by_its_first_replica(one: LonelyController) -> None:
    assert state(one) == PartitionState(leader=0, leader_epoch=0, controller_epoch=1, isr=(0, 1, 2))
    assert one.zookeeper.content(paths.config_path("topics/orders")) == encode_config(
        {"retention.ms": "-1"}
    )
    again = CreateTopic(pending_id=1, topic="orders", assignment={0: (0,)})
    assert one.ask(again).error is ErrorCode.TOPIC_ALREADY_EXISTS


def test_a_leader_that_dies_is_followed_by_the_next_of_the_isr(one: LonelyController) -> None:
    kill(one, 0)
    assert (state(one).leader, state(one).isr) == (1, (1, 2))


def test_the_last_of_an_isr_stays_in_it_and_leads_again(one: LonelyController) -> None:
    kill(one, 0)
    kill(one, 1, 2)
    down = state(one)
    assert down.leader == NO_LEADER
    assert len(down.isr) == 1
    register(one.zookeeper, 0)
    one.run()
    assert state(one).leader == NO_LEADER
    register(one.zookeeper, down.isr[0])
    one.run()
    assert (state(one).leader, state(one).isr) == (down.isr[0], down.isr)


def test_outside_the_isr_only_who_may_is_elected(one: LonelyController) -> None:
    shrink(one, 0)
    kill(one, 0)
    assert state(one).leader == NO_LEADER
    refused = one.ask(ElectLeaders(pending_id=1, partitions=(P0,)))
    assert refused.errors == {P0: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE}
    assert one.ask(ElectLeaders(pending_id=1, partitions=(P0,), is_unclean=True)).errors == {
        P0: NONE
    }
    assert (state(one).leader, state(one).isr) == (1, (1,))
    assert state(one).recovery_state == RECOVERING


def test_a_topic_s_own_setting_allows_unclean_elections(one: LonelyController) -> None:
    allowed = encode_config({"unclean.leader.election.enable": "true"})
    one.zookeeper.apply(Set(paths.config_path("topics/orders"), allowed))
    shrink(one, 0)
    kill(one, 0)
    assert (state(one).leader, state(one).isr) == (1, (1,))


def test_a_leader_s_change_of_its_isr_is_judged(one: LonelyController) -> None:
    def error(request: AlterPartition) -> ErrorCode:
        answer = one.ask(request)
        return answer.error if answer.error is not NONE else answer.altered[0].error

    assert error(alter(one, topic="tea")) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    unknown_id = alter(one, topic=None, topic_id=Uuid(bytes(15) + b"\2"))
    assert error(unknown_id) is ErrorCode.UNKNOWN_TOPIC_ID
    assert error(alter(one, partition_epoch=9)) is ErrorCode.NOT_CONTROLLER
    assert error(alter(one, leader_epoch=9)) is ErrorCode.NOT_CONTROLLER
    assert error(alter(one, leader_epoch=-1)) is ErrorCode.FENCED_LEADER_EPOCH
    assert error(alter(one, broker=1)) is ErrorCode.FENCED_LEADER_EPOCH
    assert error(alter(one, partition_epoch=-1)) is ErrorCode.INVALID_UPDATE_VERSION
    assert error(alter(one, isr=(1, 2))) is ErrorCode.INVALID_REQUEST
    assert error(alter(one, isr=(0,), recovery_state=RECOVERING)) is ErrorCode.INVALID_REQUEST
    stale = AlterPartition(pending_id=2, broker=0, broker_epoch=0, changes=())
    assert error(stale) is ErrorCode.STALE_BROKER_EPOCH
    assert error(alter(one, topic=None, topic_id=Uuid(bytes(15) + b"\1"))) is NONE
    assert state(one).isr == (0, 1)
    # Asked again, it is done.
    assert error(alter(one, partition_epoch=0)) is NONE


def test_a_broker_that_is_down_joins_no_isr(one: LonelyController) -> None:
    shrink(one, 0)
    kill(one, 2)
    assert one.ask(alter(one, isr=(0, 2))).altered[0].error is ErrorCode.INELIGIBLE_REPLICA


def test_a_broker_about_to_stop_leads_nothing(one: LonelyController) -> None:
    answer = one.ask(ControlledShutdown(pending_id=3, broker=0))
    assert (answer.error, answer.remaining) == (NONE, ())
    assert (state(one).leader, state(one).isr) == (1, (1, 2))
    shrink_to_1 = alter(one, broker=1, isr=(1,))
    assert one.ask(shrink_to_1).altered[0].error is NONE
    assert one.ask(ControlledShutdown(pending_id=3, broker=1)).remaining == (P0,)
    unknown = one.ask(ControlledShutdown(pending_id=3, broker=7))
    assert unknown.error is ErrorCode.BROKER_NOT_AVAILABLE
    old = ControlledShutdown(pending_id=3, broker=1, broker_epoch=0)
    assert one.ask(old).error is ErrorCode.STALE_BROKER_EPOCH


def test_preferred_leaders_come_back_by_themselves(one: LonelyController) -> None:
    kill(one, 0)
    register(one.zookeeper, 0)
    one.run()
    answer = one.ask(alter(one, broker=1, isr=(1, 2, 0)))
    assert answer.altered[0].error is NONE
    one.receive(RebalanceDue())
    assert state(one).leader == 0
    asked = one.ask(ElectLeaders(pending_id=1, partitions=(P0, TopicPartition("tea", 0))))
    assert list(asked.errors.values()) == [
        ErrorCode.ELECTION_NOT_NEEDED,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]


def test_a_reassignment_ends_when_the_new_replicas_are_in_sync(one: LonelyController) -> None:
    register(one.zookeeper, 3)
    one.run()
    answer = one.ask(AlterReassignments(pending_id=4, wanted={P0: (3, 1)}))
    assert answer.errors == {P0: NONE}
    moving = ReplicaAssignment((3, 1, 0, 2), adding=(3,), removing=(0, 2))
    assert one.ask(ListReassignments(pending_id=5)).reassignments == {P0: moving}
    assert one.ask(alter(one, isr=(0, 1, 2, 3))).altered[0].error is NONE
    assert one.machine.context.assignment(P0) == ReplicaAssignment((3, 1))
    assert (state(one).leader, set(state(one).isr)) == (3, {1, 3})
    deleted = {
        outgoing.broker
        for outgoing in one.outgoing
        if isinstance(outgoing.order, StopReplica) and outgoing.order.orders[P0].delete
    }
    assert deleted == {0, 2}
    assert one.ask(ListReassignments(pending_id=5)).reassignments == {}


def test_a_reassignment_can_be_taken_back(one: LonelyController) -> None:
    register(one.zookeeper, 3)
    one.run()
    wanted = AlterReassignments(pending_id=4, wanted={P0: (3, 1)})
    back = AlterReassignments(pending_id=4, wanted={P0: None})
    assert one.ask(back).errors == {P0: ErrorCode.NO_REASSIGNMENT_IN_PROGRESS}
    one.ask(wanted)
    assert one.ask(back).errors == {P0: NONE}
    assert set(one.machine.context.replicas_of(P0)) == {0, 1, 2}
    for target in ((), (1, 1), (9,)):
        asked = AlterReassignments(pending_id=4, wanted={P0: target})
        assert one.ask(asked).errors == {P0: ErrorCode.INVALID_REPLICA_ASSIGNMENT}


def test_a_partition_keeps_its_number_of_replicas_if_that_is_asked_for(
    one: LonelyController,
) -> None:
    register(one.zookeeper, 3)
    one.run()
    for target, error in (
        ((3, 1), ErrorCode.INVALID_REPLICATION_FACTOR),
        ((9,), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ((3, 1, 0), NONE),
        (None, NONE),
    ):
        asked = AlterReassignments(pending_id=4, wanted={P0: target}, may_change_count=False)
        assert one.ask(asked).errors == {P0: error}


def test_a_cancelled_reassignment_does_not_give_up_the_only_replica_in_sync(
    one: LonelyController,
) -> None:
    register(one.zookeeper, 3)
    one.run()
    one.ask(AlterReassignments(pending_id=4, wanted={P0: (3, 1, 2)}))
    shrink(one, 0, 3)
    kill(one, 0)
    assert (state(one).leader, state(one).isr) == (3, (3,))
    answer = one.ask(AlterReassignments(pending_id=4, wanted={P0: None}))
    assert answer.errors == {P0: ErrorCode.INVALID_REPLICA_ASSIGNMENT}


def test_the_next_controller_removes_a_leader_that_is_assigned_no_longer(
    one: LonelyController,
) -> None:
    """The controller failed between the two writes, and nobody else would have ended this."""
    topic = decode_topic("orders", one.zookeeper.content(paths.topic_path("orders")))
    partitions = {0: ReplicaAssignment((2, 1))}
    content = encode_topic(replace(topic, partitions=partitions))
    one.zookeeper.delete(paths.CONTROLLER)
    one.zookeeper.apply(Set(paths.topic_path("orders"), content))
    other = LonelyController(one.zookeeper, broker=1)
    assert (state(other).leader, state(other).isr, state(other).leader_epoch) == (2, (1, 2), 1)
    stopped = [
        outgoing.broker
        for outgoing in other.outgoing
        if isinstance(outgoing.order, StopReplica) and outgoing.order.orders[P0].delete
    ]
    assert stopped == [0]


def test_old_tools_ask_by_nodes(one: LonelyController) -> None:
    register(one.zookeeper, 3)
    one.run()
    missing = TopicPartition("tea", 0)
    wanted = encode_reassignment({P0: (0, 3), missing: (1,)})
    one.zookeeper.apply(Create(paths.REASSIGN_PARTITIONS, wanted))
    one.run()
    assert one.zookeeper.content(paths.REASSIGN_PARTITIONS) == encode_reassignment({P0: (0, 3)})
    one.ask(alter(one, isr=(0, 1, 2, 3)))
    assert one.machine.context.replicas_of(P0) == (0, 3)
    assert paths.REASSIGN_PARTITIONS not in one.zookeeper.nodes
    kill(one, 0)
    register(one.zookeeper, 0)
    one.ask(alter(one, broker=3, isr=(3, 0)))
    one.zookeeper.apply(Create(paths.PREFERRED_ELECTION, encode_partitions([P0])))
    one.run()
    assert state(one).leader == 0
    assert paths.PREFERRED_ELECTION not in one.zookeeper.nodes


def test_old_leaders_write_their_isr_themselves() -> None:
    one = LonelyController(cluster_of(0, 1), version="2.4")
    one.ask(CreateTopic(pending_id=1, topic="orders", assignment={0: (0, 1)}))
    assert b"topic_id" not in (one.zookeeper.content(paths.topic_path("orders")) or b"")
    smaller = PartitionState(leader=0, leader_epoch=0, controller_epoch=1, isr=(0,))
    one.zookeeper.apply(Set(paths.state_path(P0), encode_state(smaller)))
    change = paths.ISR_CHANGE_PREFIX + "0000000000"
    one.zookeeper.apply(Create(change, encode_partitions([P0])))
    one.run()
    assert one.machine.context.leaderships[P0].state == smaller
    assert change not in one.zookeeper.nodes


def test_a_removed_replica_that_an_old_leader_lets_in_later_is_removed_again() -> None:
    """The controller that cancelled its reassignment failed before it told anybody."""
    one = LonelyController(cluster_of(0, 1, 2), version="2.4")
    one.ask(CreateTopic(pending_id=1, topic="orders", assignment={0: (0, 1)}))
    entered = replace(state(one), isr=(0, 1, 2))
    one.zookeeper.apply(Set(paths.state_path(P0), encode_state(entered)))
    change = paths.ISR_CHANGE_PREFIX + "0000000000"
    one.zookeeper.apply(Create(change, encode_partitions([P0])))
    one.outgoing.clear()
    one.run()
    assert state(one) == replace(entered, isr=(0, 1), leader_epoch=entered.leader_epoch + 1)
    stopped = [
        outgoing.broker
        for outgoing in one.outgoing
        if isinstance(outgoing.order, StopReplica) and outgoing.order.orders[P0].delete
    ]
    assert stopped == [2]


@pytest.mark.parametrize("is_shutting_down", [False, True])
@pytest.mark.parametrize("step", range(16))
def test_a_removed_replica_is_never_elected_though_its_leader_lets_it_in_last(
    step: int, is_shutting_down: bool
) -> None:
    """A leader before 2.7 writes its ISR itself, also while it does not know who was removed."""
    one = LonelyController(cluster_of(0, 1, 2, 3, 9), broker=9, version="2.4")
    one.ask(CreateTopic(pending_id=1, topic="orders", assignment={0: (0, 1, 2)}))
    one.ask(AlterReassignments(pending_id=2, wanted={P0: (0, 1, 2, 3)}))
    if is_shutting_down:  # the last in sync, so that nobody else is elected
        one.zookeeper.apply(Set(paths.state_path(P0), encode_state(replace(state(one), isr=(0,)))))
        epoch = one.machine.context.brokers[0].epoch
        one.ask(ControlledShutdown(pending_id=3, broker=0, broker_epoch=epoch))
    node = one.zookeeper.nodes[paths.state_path(P0)]
    version, before = node.version, state(one)
    batches = 0
    one.machine.receive(AlterReassignments(pending_id=4, wanted={P0: None}))
    results: tuple[Result, ...] | None = None
    while (batch := one.machine.advance(results)) is not None:
        if batches == step:
            entered = encode_state(replace(before, isr=(*before.isr, 3)))
            one.zookeeper.apply(Set(paths.state_path(P0), entered, version))
        results = one.zookeeper.execute(one.session, batch)
        batches += 1
    assert one.machine.context.replicas_of(P0) == (0, 1, 2)
    kill(one, 0)
    assert 3 not in state(one).isr
    assert state(one).leader == (NO_LEADER if is_shutting_down else 1)
    assert batches <= 16, "a step that no write of the leader came before"


@pytest.mark.parametrize("step", range(20))
def test_what_is_committed_is_not_deleted_when_new_replicas_fall_behind_at_last(step: int) -> None:
    """A leader before 2.7 may shrink the ISR between any two steps that end a reassignment."""
    one = LonelyController(cluster_of(0, 1, 2, 3, 9), broker=9, version="2.4")
    one.ask(CreateTopic(pending_id=1, topic="orders", assignment={0: (0, 1)}))
    one.ask(AlterReassignments(pending_id=2, wanted={P0: (2, 3)}))
    complete = replace(state(one), isr=(0, 1, 2, 3))
    one.zookeeper.apply(Set(paths.state_path(P0), encode_state(complete)))
    node = one.zookeeper.nodes[paths.state_path(P0)]
    version, batches = node.version, 0
    one.outgoing.clear()
    results: tuple[Result, ...] | None = None
    while (batch := one.machine.advance(results)) is not None:
        if batches == step and node.version == version:
            shrunk = encode_state(replace(complete, isr=(0, 1)))
            one.zookeeper.apply(Set(paths.state_path(P0), shrunk, version))
        results = one.zookeeper.execute(one.session, batch)
        batches += 1
    one.run()
    stopped = {
        outgoing.broker
        for outgoing in one.outgoing
        if isinstance(outgoing.order, StopReplica) and outgoing.order.orders[P0].delete
    }
    assert state(one).leader not in stopped
    assert state(one).leader in state(one).isr
    assert batches <= 20, "a step that no write of the leader came before"


def test_a_deletion_waits_for_the_broker_that_is_down(one: LonelyController) -> None:
    kill(one, 2)
    assert one.ask(DeleteTopic(pending_id=1, topic="orders")).error is NONE
    for broker in (0, 1):
        one.receive(deleted(one, broker))
    assert paths.topic_path("orders") in one.zookeeper.nodes
    register(one.zookeeper, 2)
    one.run()
    one.receive(deleted(one, 2))
    assert [path for path in one.zookeeper.nodes if "orders" in path] == []
    gone = one.ask(DeleteTopic(pending_id=1, topic="orders"))
    assert gone.error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_topic_grows_but_not_while_it_is_deleted(one: LonelyController) -> None:
    grown = CreatePartitions(pending_id=1, topic="orders", assignment={1: (1, 2)})
    assert one.ask(grown).error is NONE
    assert state(one, TopicPartition("orders", 1)).leader == 1
    assert one.ask(grown).error is ErrorCode.INVALID_PARTITIONS
    kill(one, 2)
    one.ask(DeleteTopic(pending_id=1, topic="orders"))
    assert one.ask(grown).error is ErrorCode.INVALID_TOPIC_EXCEPTION


def test_a_failed_log_directory_moves_leadership(one: LonelyController) -> None:
    event = paths.LOG_DIR_EVENT_PREFIX + "0000000000"
    one.zookeeper.apply(Create(event, encode_log_dir_event(0)))
    one.run()
    assert event not in one.zookeeper.nodes
    asked = [x.broker for x in one.outgoing if isinstance(x.order, LeaderAndIsr)]
    assert asked == [0]
    one.receive(failed_disk(one, 0))
    assert (state(one).leader, state(one).isr) == (1, (1, 2))


def test_a_response_from_before_a_restart_is_ignored(one: LonelyController) -> None:
    """The directory may have been repaired: the replica would stay offline for ever."""
    late, late_deletion = failed_disk(one, 0), deleted(one, 0)
    kill(one, 0)
    register(one.zookeeper, 0)
    one.run()
    before = state(one)
    one.receive(late)
    one.receive(late_deletion)
    assert state(one) == before
    assert one.machine.context.is_online(0, P0)


def test_blocks_of_producer_ids_are_handed_out_once(one: LonelyController) -> None:
    epoch = one.machine.context.brokers[1].epoch
    request = AllocateProducerIds(pending_id=1, broker=1, broker_epoch=epoch)
    blocks = [one.ask(request).producer_ids for _ in range(2)]
    assert blocks == [
        ProducerIdBlock(broker_id=1, start=0, end=999),
        ProducerIdBlock(broker_id=1, start=1000, end=1999),
    ]
    stale = AllocateProducerIds(pending_id=1, broker=1, broker_epoch=0)
    assert one.ask(stale).error is ErrorCode.STALE_BROKER_EPOCH


def test_a_feature_that_a_broker_lacks_is_refused(one: LonelyController) -> None:
    wanted = UpdateFeature(pending_id=1, name="tea", max_version_level=1)
    assert one.ask(wanted).error is ErrorCode.INVALID_REQUEST


def test_a_deposed_controller_changes_nothing_and_stands_again(one: LonelyController) -> None:
    one.zookeeper.delete(paths.CONTROLLER)
    other = LonelyController(one.zookeeper, broker=1)
    before = one.zookeeper.content(paths.state_path(P0))
    # It has not heard of it yet: the write is fenced.
    one.machine._events.clear()
    late = alter(one)
    answer = one.ask(late)
    assert answer.error is ErrorCode.NOT_CONTROLLER
    assert not one.machine.is_active
    assert one.zookeeper.content(paths.state_path(P0)) == before
    assert other.machine.is_active
    assert decode_controller_epoch(one.zookeeper.content(paths.CONTROLLER_EPOCH)) == 2


def test_who_is_no_controller_says_so(one: LonelyController) -> None:
    one.machine.receive(SessionLost())
    one.receive(Elect())
    assert not one.machine.is_active
    assert one.ask(alter_request()).error is ErrorCode.NOT_CONTROLLER


def alter_request() -> AlterPartition:
    return AlterPartition(pending_id=2, broker=0, broker_epoch=0, changes=())


def test_a_wrong_node_is_named_and_the_rest_continues(one: LonelyController) -> None:
    one.zookeeper.apply(Create(paths.REASSIGN_PARTITIONS, b"{}"))
    one.run()
    (complaint,) = one.machine.take_complaints()
    assert complaint.startswith("/admin/reassign_partitions is not what Kafka writes there")
    kill(one, 0)
    assert state(one).leader == 1


def test_requests_wait_in_their_order_until_they_are_answered(one: LonelyController) -> None:
    kill(one, 0)
    channels = Channels()
    channels.put(one.outgoing)
    first = channels.next_for(1)
    assert first is not None
    assert channels.next_for(1) is first
    channels.answered(first)
    assert channels.next_for(1) is not first
    assert channels.brokers() == [1, 2]
    register(one.zookeeper, 1)
    one.run()
    channels.keep(one.machine.context.brokers)
    assert channels.brokers() == [2]
    channels.clear()
    assert channels.brokers() == []
