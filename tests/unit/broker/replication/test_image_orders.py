"""What a leader makes of images of a KRaft cluster: states within its epoch, and who may join."""

from dataclasses import replace
from typing import Any

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.base.ids import Uuid
from ottla.base.partitions import TopicPartition
from ottla.broker.metadata.image_store import ImageStore
from ottla.broker.metadata.log import NoMetadataLog
from ottla.broker.replication.effects import BecameFollower, MoveHighWatermark
from ottla.broker.replication.fetches import Fetch
from ottla.broker.replication.leading import Leading
from ottla.broker.replication.replica_manager import Applied, ReplicaManager, ReplicaOptions
from ottla.broker.replication.replica_selector import closest_replica
from ottla.controller.events import AlteredAnswer, AlteredIsr
from ottla.controller.requests import LeaderAndIsr, PartitionOrder
from ottla.metadata.brokers import BrokerRegistration
from ottla.metadata.image import MetadataImage, PartitionImage, TopicImage
from ottla.zookeeper.topics import RECOVERING, PartitionState, ReplicaAssignment
from tests.simulation.cluster_broker import ModelLog

ORDERS = TopicPartition("orders", 0)
ME, OTHER, THIRD = 1, 2, 3
EPOCHS = {ME: 10, OTHER: 20, THIRD: 30}


class Broker:
    """A manager with one log, whose broker and the others are registered."""

    def __init__(self) -> None:
        self.log = ModelLog()
        brokers = {one: BrokerRegistration(endpoints=(), epoch=its) for one, its in EPOCHS.items()}
        self.store = ImageStore(MetadataImage(brokers=brokers), NoMetadataLog())
        options = ReplicaOptions(broker_id=ME, lag_time_max_ms=100)
        self.manager = ReplicaManager(options, self, self.store)
        self.manager.registered(EPOCHS[ME])

    def open(self, *_: Any, **__: Any) -> ModelLog:
        return self.log

    def registered(self, broker: int, **fields: Any) -> None:
        """Another state of a broker in the image."""
        known = {"endpoints": (), "epoch": EPOCHS[broker]} | fields
        image = self.store.image
        brokers = {**image.brokers, broker: BrokerRegistration(**known)}
        self.store.follow(MetadataImage(brokers=brokers))

    def image(
        self, isr: tuple[int, ...], partition_epoch: int, *, leader: int = ME, **fields: Any
    ) -> Applied:
        replicas = fields.pop("replicas", (1, 2, 3))
        state = {"leader": leader, "leader_epoch": 5, "controller_epoch": 0, "isr": isr} | fields
        order = PartitionOrder(
            state=PartitionState(**state),
            partition_epoch=partition_epoch,
            assignment=ReplicaAssignment(replicas),
            is_new=False,
        )
        orders = LeaderAndIsr(
            orders={ORDERS: order}, topic_ids={}, live_leaders={}, is_committed=True
        )
        return self.manager.follow(orders, 0)

    def fetch(self, follower: int, offset: int, broker_epoch: int = -1) -> None:
        fetch = Fetch(
            partition=ORDERS,
            follower=follower,
            leader_epoch=5,
            fetch_offset=offset,
            broker_epoch=broker_epoch,
        )
        assert self.manager.fetched(fetch, 0)[0].error is ErrorCode.NONE

    def asked(self) -> AlteredIsr | None:
        changes = self.manager.alter_partitions.next_request()
        return changes[0] if changes else None

    @property
    def leading(self) -> Leading:
        leading = self.manager.leading(ORDERS)
        assert leading is not None
        return leading


def test_another_isr_within_the_leader_epoch_is_taken_and_followers_stay_known() -> None:
    broker = Broker()
    broker.image((1, 2, 3), 10)
    broker.log.append(((5, "a"), (5, "b")))
    broker.fetch(OTHER, 2)
    broker.registered(THIRD, is_fenced=True)
    applied = broker.image((1, 2), 11)
    assert applied.errors == {ORDERS: ErrorCode.NONE}
    assert applied.effects == (MoveHighWatermark(ORDERS, 2),)
    assert broker.leading.isr.committed == {1, 2}
    assert broker.leading.partition_epoch == 11


def test_an_image_that_is_older_than_the_controllers_answer_changes_nothing() -> None:
    broker = Broker()
    broker.image((1, 2), 10)
    broker.fetch(THIRD, 0)
    change = broker.asked()
    assert change is not None
    state = PartitionState(leader=ME, leader_epoch=5, controller_epoch=0, isr=(1, 2, 3))
    answer = AlteredAnswer(change=change, state=state, partition_epoch=12)
    broker.manager.altered(1, [answer], 0)
    broker.image((1, 2), 11)
    assert broker.leading.isr.committed == {1, 2, 3}
    broker.image((1,), 13)
    assert broker.leading.isr.committed == {1}


def test_an_image_replaces_what_was_asked_for_and_the_late_answer_says_nothing() -> None:
    broker = Broker()
    broker.image((1, 2), 10)
    broker.fetch(THIRD, 0)
    change = broker.asked()
    assert change is not None
    broker.image((1,), 11)
    assert broker.leading.isr.maximal == {1}
    state = PartitionState(leader=ME, leader_epoch=5, controller_epoch=0, isr=(1, 2, 3))
    late = AlteredAnswer(change=change, state=state, partition_epoch=12)
    assert broker.manager.altered(1, [late], 0) == []
    assert broker.leading.isr.committed == {1}


def test_replicas_that_a_reassignment_adds_may_fetch_and_those_that_go_count_no_more() -> None:
    broker = Broker()
    broker.image((1, 2), 10, replicas=(1, 2))
    broker.image((1, 2), 11, replicas=(1, 3))
    broker.fetch(THIRD, 0)
    assert set(broker.leading.replicas) == {THIRD}


def test_a_follower_of_the_same_leader_goes_on_as_it_was() -> None:
    broker = Broker()
    first = broker.image((1, 2, 3), 10, leader=OTHER)
    assert BecameFollower(ORDERS, 5) in first.effects
    following = broker.manager.partitions[ORDERS].role
    assert broker.image((2, 3), 11, leader=OTHER).effects == ()
    assert broker.manager.partitions[ORDERS].role is following
    assert broker.manager.partitions[ORDERS].partition_epoch == 11


def test_an_isr_is_asked_for_with_the_epoch_of_each_broker() -> None:
    broker = Broker()
    broker.image((1, 2), 10)
    broker.fetch(OTHER, 0, broker_epoch=20)
    broker.fetch(THIRD, 0, broker_epoch=30)
    change = broker.asked()
    assert change is not None
    assert (change.isr, change.epochs) == ((1, 2, 3), (10, 20, 30))


@pytest.mark.parametrize(
    ("registered", "broker_epoch"),
    [
        ({"is_fenced": True}, 30),
        ({"is_shutting_down": True}, 30),
        ({"epoch": 31}, 30),
        ({"epoch": 29}, 30),
    ],
)
def test_who_is_fenced_or_leaves_or_is_of_another_life_does_not_join(
    registered: dict[str, Any], broker_epoch: int
) -> None:
    broker = Broker()
    broker.image((1, 2), 10)
    broker.registered(THIRD, **registered)
    broker.fetch(THIRD, 0, broker_epoch)
    assert broker.asked() is None
    broker.registered(THIRD, epoch=broker_epoch)
    broker.fetch(THIRD, 0, broker_epoch)
    change = broker.asked()
    assert change is not None
    assert change.isr == (1, 2, 3)


def test_a_leader_after_an_unclean_election_says_that_it_has_recovered() -> None:
    broker = Broker()
    broker.image((1,), 10, recovery_state=RECOVERING)
    broker.manager.tick(0)
    change = broker.asked()
    assert change is not None
    assert (change.isr, change.recovery_state) == ((1,), 0)
    state = PartitionState(leader=ME, leader_epoch=5, controller_epoch=0, isr=(1,))
    broker.manager.altered(1, [AlteredAnswer(change=change, state=state, partition_epoch=11)], 0)
    broker.manager.tick(0)
    assert broker.asked() is None


def test_a_leader_that_loses_a_partition_by_its_own_change_waits_for_the_image() -> None:
    broker = Broker()
    broker.image((1, 2), 10)
    broker.fetch(THIRD, 0)
    change = broker.asked()
    assert change is not None
    elected = AlteredAnswer(change=change, error=ErrorCode.NEW_LEADER_ELECTED)
    broker.manager.altered(1, [elected], 0)
    broker.manager.tick(0)
    assert broker.asked() is None
    assert broker.leading.isr.maximal == {1, 2, 3}


def test_consumers_are_not_sent_to_a_replica_whose_broker_is_fenced() -> None:
    broker = Broker()
    broker.image((1, 2), 10)
    broker.fetch(OTHER, 0)
    broker.registered(OTHER, rack="b")
    assert closest_replica(broker.leading, "b", 0, broker.store.image.brokers) == OTHER
    broker.registered(OTHER, rack="b", is_fenced=True)
    assert closest_replica(broker.leading, "b", 0, broker.store.image.brokers) is None


def test_a_replica_whose_directory_has_failed_does_not_join_the_isr() -> None:
    good, failed = (Uuid(bytes(15) + bytes([number])) for number in (101, 102))
    broker = Broker()
    broker.image((1, 2), 10)
    partition = PartitionImage(
        replicas=(1, 2, 3),
        isr=(1, 2),
        leader=ME,
        leader_epoch=5,
        partition_epoch=10,
        directories=(good, good, failed),
    )
    topic = TopicImage("orders", Uuid(bytes(15) + b"\x09"), {0: partition})
    broker.registered(THIRD, directories=(good,))
    image = replace(broker.store.image, topics={"orders": topic})
    broker.store.follow(image)
    broker.fetch(THIRD, 0)
    assert broker.asked() is None
    both = {**image.brokers, THIRD: replace(image.brokers[THIRD], directories=(good, failed))}
    broker.store.follow(replace(image, brokers=both))
    broker.fetch(THIRD, 0)
    change = broker.asked()
    assert change is not None
    assert set(change.isr) == {1, 2, 3}
