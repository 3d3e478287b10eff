"""Brokers of one cluster in one process: orders of a controller, and followers that fetch."""

import itertools
from dataclasses import dataclass, field

from ottla.base.error_codes import ErrorCode
from ottla.base.files import FileSystem
from ottla.base.ids import Uuid
from ottla.base.partitions import TopicPartition
from ottla.base.timestamps import Timestamps
from ottla.broker.assemble import assemble
from ottla.broker.broker import Broker
from ottla.broker.replicas import Replicas
from ottla.broker.replication.replica_manager import Applied, Sender
from ottla.broker.startup.opening import BrokerOptions
from ottla.broker.topics.partition import Partition
from ottla.config.broker import broker_config
from ottla.controller.requests import (
    LeaderAndIsr,
    Order,
    PartitionOrder,
    StopOrder,
    StopReplica,
    UpdateMetadata,
)
from ottla.registries.brokers import BrokerRegistration
from ottla.registries.topics import PartitionState, ReplicaAssignment
from tests.support.brokers import NOW_MS, TOPIC_DEFAULTS, at, id_of

CONTROLLER = Sender(controller=1, controller_epoch=1)
TOPIC_ID = id_of(77)
_numbers = itertools.count(5000)


def open_member(broker_id: int, file_system: FileSystem, *paths: str, **settings: str) -> Broker:
    """A broker of a cluster; settings are Kafka's names with `_` for `.`."""
    options = BrokerOptions(
        now_ms=NOW_MS,
        new_id=lambda: id_of(next(_numbers)),
        random_below=lambda _: 0,
        node_id=broker_id,
        cluster_id="a-cluster-for-tests-01",
        is_in_cluster=True,
    )
    values = {"log.index.size.max.bytes": str(TOPIC_DEFAULTS.segment_index_bytes)}
    values |= {name.replace("_", "."): value for name, value in settings.items()}
    broker = assemble(paths or ("/d",), file_system, broker_config(values), options)
    replicas_of(broker).registered(broker_id * 10)
    return broker


def replicas_of(broker: Broker) -> Replicas:
    assert broker.replicas is not None
    return broker.replicas


@dataclass(slots=True)
class PartitionOrders:
    """What a controller says of one partition, and in which epochs."""

    place: TopicPartition
    replicas: tuple[int, ...]
    topic_id: Uuid = TOPIC_ID
    leader_epoch: int = -1
    partition_epoch: int = 0
    now_ms: float = 0.0
    racks: dict[int, str] = field(default_factory=dict)

    def lead(
        self, leader: int, brokers: dict[int, Broker], isr: tuple[int, ...] | None = None
    ) -> dict[int, Applied]:
        """Has all brokers know of another leader, in the next epoch."""
        self.leader_epoch += 1
        self.partition_epoch += 1
        state = PartitionState(
            leader=leader,
            leader_epoch=self.leader_epoch,
            controller_epoch=1,
            isr=self.replicas if isr is None else isr,
        )
        order = PartitionOrder(
            state=state,
            partition_epoch=self.partition_epoch,
            assignment=ReplicaAssignment(self.replicas),
            is_new=self.leader_epoch == 0,
        )
        orders = LeaderAndIsr(
            orders={self.place: order},
            topic_ids={self.place.topic: self.topic_id},
            live_leaders={},
        )
        live = {one: BrokerRegistration(endpoints=(), rack=self.racks.get(one)) for one in brokers}
        self._send(UpdateMetadata(partitions={}, topic_ids={}, brokers=live), brokers)
        return self._send(orders, {one: brokers[one] for one in brokers if one in self.replicas})

    def stop(self, brokers: dict[int, Broker], *, delete: bool) -> dict[int, Applied]:
        stops = {self.place: StopOrder(leader_epoch=self.leader_epoch, delete=delete)}
        return self._send(StopReplica(orders=stops), brokers)

    def _send(self, order: Order, brokers: dict[int, Broker]) -> dict[int, Applied]:
        moment = self.at
        return {
            one: replicas_of(broker).apply(order, CONTROLLER, moment)
            for one, broker in brokers.items()
        }

    @property
    def at(self) -> Timestamps:
        return at(self.now_ms)

    def partition(self, broker: Broker) -> Partition:
        return broker.topics.partition(*self.place)


def refused(applied: dict[int, Applied]) -> dict[int, list[ErrorCode]]:
    """Which brokers refused what."""
    errors = {
        broker: [one for one in (each.error, *each.errors.values()) if one is not ErrorCode.NONE]
        for broker, each in applied.items()
    }
    return {broker: some for broker, some in errors.items() if some}
