"""The controller's requests to brokers, collected per broker while an event is handled. The values
are independent of versions; the sender encodes them for the cluster's
`inter.broker.protocol.version`. Kafka's counterpart: `AbstractControllerBrokerRequestBatch`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import TypeAlias

from ottla.base.ids import ZERO_UUID, Uuid
from ottla.base.partitions import TopicPartition
from ottla.base.values import dataclass
from ottla.controller.context import (
    EPOCH_DURING_DELETE,
    LEADER_DURING_DELETE,
    NO_EPOCH,
    ControllerContext,
    Leadership,
)
from ottla.metadata.brokers import BrokerRegistration
from ottla.metadata.image import PartitionImage
from ottla.zookeeper.topics import PartitionState, ReplicaAssignment


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionOrder:
    """The order to a broker to lead a partition, if it is the leader, or else to follow."""

    state: PartitionState
    partition_epoch: int
    assignment: ReplicaAssignment
    is_new: bool
    directory: Uuid = ZERO_UUID
    """Where the broker's replica is to be made, if it is not there yet; zero for anywhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderAndIsr:
    orders: Mapping[TopicPartition, PartitionOrder]
    topic_ids: Mapping[str, Uuid]
    live_leaders: Mapping[int, BrokerRegistration]
    settings: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """The topics' own settings, which are not in the request; a broker reads those it needs."""
    is_committed: bool = False
    """Whether it is of an image of KRaft's, where an ISR may change within a leader epoch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StopOrder:
    leader_epoch: int
    delete: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class StopReplica:
    orders: Mapping[TopicPartition, StopOrder]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionMetadata:
    """A partition for all brokers; one that is being deleted has the leader -2."""

    image: PartitionImage
    controller_epoch: int

    @property
    def new_image(self) -> PartitionImage | None:
        """`None` for a partition that is being deleted."""
        return None if self.image.leader == LEADER_DURING_DELETE else self.image


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateMetadata:
    partitions: Mapping[TopicPartition, PartitionMetadata]
    topic_ids: Mapping[str, Uuid]
    brokers: Mapping[int, BrokerRegistration]


Order: TypeAlias = LeaderAndIsr | StopReplica | UpdateMetadata


@dataclass(frozen=True, slots=True, kw_only=True)
class Outgoing:
    """A request for a broker.

    It is sent after earlier requests to the same broker, and repeated until it is answered or the
    broker's node of this epoch is gone.
    """

    broker: int
    broker_epoch: int
    controller_epoch: int
    order: Order


@dataclass(slots=True)
class RequestBatch:
    """Collects requests; `send` passes them on, LeaderAndIsr first."""

    context: ControllerContext
    outgoing: list[Outgoing]
    orders: dict[int, dict[TopicPartition, PartitionOrder]] = field(default_factory=dict)
    stops: dict[int, dict[TopicPartition, StopOrder]] = field(default_factory=dict)
    metadata_receivers: set[int] = field(default_factory=set)
    metadata: dict[TopicPartition, PartitionMetadata] = field(default_factory=dict)

    def lead(
        self,
        brokers: Iterable[int],
        partition: TopicPartition,
        leadership: Leadership,
        *,
        is_new: bool = False,
    ) -> None:
        """Orders brokers to lead or follow a partition, and sends its metadata to all brokers."""
        assignment = self.context.assignment(partition)
        for broker in brokers:
            orders = self.orders.setdefault(broker, {})
            before = orders.get(partition)
            orders[partition] = PartitionOrder(
                state=leadership.state,
                partition_epoch=leadership.version,
                assignment=assignment,
                is_new=is_new or (before is not None and before.is_new),
            )
        self.tell(self.context.brokers, [partition])

    def stop(self, broker: int, partition: TopicPartition, *, delete: bool) -> None:
        orders = self.stops.setdefault(broker, {})
        before = orders.get(partition)
        orders[partition] = StopOrder(
            leader_epoch=self._stopped_epoch(partition),
            delete=delete or (before is not None and before.delete),
        )

    def _stopped_epoch(self, partition: TopicPartition) -> int:
        """The leader epoch to send; deletion of a topic overrides all epochs (KIP-570)."""
        if self.context.is_queued_for_deletion(partition.topic):
            return EPOCH_DURING_DELETE
        known = self.context.leaderships.get(partition)
        return NO_EPOCH if known is None else known.state.leader_epoch

    def tell(self, brokers: Iterable[int], partitions: Iterable[TopicPartition]) -> None:
        """Sends brokers the live brokers and the metadata of partitions."""
        self.metadata_receivers.update(brokers)
        for partition in partitions:
            leadership = self.context.leaderships.get(partition)
            if leadership is not None:
                self.metadata[partition] = self._metadata(partition, leadership)

    def _metadata(self, partition: TopicPartition, leadership: Leadership) -> PartitionMetadata:
        state, replicas = leadership.state, self.context.replicas_of(partition)
        is_deleted = self.context.is_queued_for_deletion(partition.topic)
        image = PartitionImage(
            replicas=replicas,
            isr=state.isr,
            leader=LEADER_DURING_DELETE if is_deleted else state.leader,
            leader_epoch=state.leader_epoch,
            partition_epoch=leadership.version,
            offline=tuple(one for one in replicas if not self.context.is_online(one, partition)),
        )
        return PartitionMetadata(image=image, controller_epoch=state.controller_epoch)

    def send(self) -> None:
        """Passes the collected requests on and clears the batch."""
        for broker, orders in sorted(self.orders.items()):
            leaders = {one.state.leader for one in orders.values()}
            live_leaders = {
                key: one for key, one in self._registrations().items() if key in leaders
            }
            order = LeaderAndIsr(
                orders=orders, topic_ids=self._topic_ids(orders), live_leaders=live_leaders
            )
            self._send(broker, order)
        if self.metadata_receivers:
            update = UpdateMetadata(
                partitions=self.metadata,
                topic_ids=self._topic_ids(self.metadata),
                brokers=self._registrations(),
            )
            for broker in sorted(self.metadata_receivers):
                self._send(broker, update)
        for broker, stops in sorted(self.stops.items()):
            self._send(broker, StopReplica(orders=stops))
        self.clear()

    def clear(self) -> None:
        self.orders, self.stops, self.metadata_receivers, self.metadata = {}, {}, set(), {}

    def _send(self, broker: int, order: Order) -> None:
        """Adds a request; a broker that is down gets its state when it registers."""
        known = self.context.brokers.get(broker)
        if known is not None:
            self.outgoing.append(
                Outgoing(
                    broker=broker,
                    broker_epoch=known.epoch,
                    controller_epoch=self.context.epoch,
                    order=order,
                )
            )

    def _registrations(self) -> dict[int, BrokerRegistration]:
        return {key: one.registration for key, one in sorted(self.context.brokers.items())}

    def _topic_ids(self, partitions: Iterable[TopicPartition]) -> dict[str, Uuid]:
        topics = dict.fromkeys(one.topic for one in partitions)
        ids = self.context.topic_ids
        return {topic: ids[topic] for topic in topics if topic in ids}
