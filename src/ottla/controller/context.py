"""The controller's view of the cluster. Kafka's counterpart: `ControllerContext`."""

from collections.abc import Iterable, Iterator
from dataclasses import field, replace
from enum import Enum
from typing import NamedTuple

from ottla.base.ids import Uuid
from ottla.base.partitions import TopicPartition
from ottla.base.values import dataclass
from ottla.metadata.brokers import BrokerRegistration
from ottla.zookeeper.topics import NO_LEADER, PartitionState, ReplicaAssignment

NO_EPOCH = -1
EPOCH_DURING_DELETE = -2
LEADER_DURING_DELETE = -2


class Replica(NamedTuple):
    """A partition on a broker."""

    partition: TopicPartition
    broker: int


class PartitionPhase(Enum):
    """Kafka's counterpart: `PartitionState`."""

    NON_EXISTENT = "NonExistentPartition"
    NEW = "NewPartition"
    ONLINE = "OnlinePartition"
    OFFLINE = "OfflinePartition"


class ReplicaPhase(Enum):
    """Kafka's counterpart: `ReplicaState`."""

    NON_EXISTENT = "NonExistentReplica"
    NEW = "NewReplica"
    ONLINE = "OnlineReplica"
    OFFLINE = "OfflineReplica"
    DELETION_STARTED = "ReplicaDeletionStarted"
    DELETION_SUCCESSFUL = "ReplicaDeletionSuccessful"
    DELETION_INELIGIBLE = "ReplicaDeletionIneligible"


@dataclass(frozen=True, slots=True)
class Leadership:
    """A partition's state, and the version of its node, which is the partition epoch."""

    state: PartitionState
    version: int


@dataclass(frozen=True, slots=True)
class LiveBroker:
    """A registered broker; `epoch` is the zxid that created its node."""

    registration: BrokerRegistration
    epoch: int


@dataclass(slots=True)
class ControllerContext:
    epoch: int = 0
    epoch_version: int = 0
    brokers: dict[int, LiveBroker] = field(default_factory=dict)
    """Every registered broker, including those that are shutting down."""
    shutting_down: set[int] = field(default_factory=set)
    offline_directories: dict[int, set[TopicPartition]] = field(default_factory=dict)
    """Replicas by broker that the broker reported to be in a failed log directory."""
    assignments: dict[str, dict[int, ReplicaAssignment]] = field(default_factory=dict)
    topic_ids: dict[str, Uuid] = field(default_factory=dict)
    topic_names: dict[Uuid, str] = field(default_factory=dict)
    """The inverse of `topic_ids`."""
    leaderships: dict[TopicPartition, Leadership] = field(default_factory=dict)
    reassigning: set[TopicPartition] = field(default_factory=set)
    partition_phases: dict[TopicPartition, PartitionPhase] = field(default_factory=dict)
    replica_phases: dict[Replica, ReplicaPhase] = field(default_factory=dict)
    to_delete: set[str] = field(default_factory=set)
    deletion_started: set[str] = field(default_factory=set)
    deletion_ineligible: set[str] = field(default_factory=set)

    # Brokers

    @property
    def live_ids(self) -> set[int]:
        """The brokers that may lead: all except those that are shutting down."""
        return self.brokers.keys() - self.shutting_down

    def is_online(
        self, broker: int, partition: TopicPartition, *, or_shutting_down: bool = False
    ) -> bool:
        """Whether the broker is up and the replica is not in a failed directory."""
        if broker not in self.brokers or (not or_shutting_down and broker in self.shutting_down):
            return False
        return partition not in self.offline_directories.get(broker, ())

    # Partitions

    @property
    def topics(self) -> set[str]:
        return set(self.assignments)

    def all_partitions(self) -> Iterator[TopicPartition]:
        for topic, partitions in self.assignments.items():
            for partition in partitions:
                yield TopicPartition(topic, partition)

    def partitions_of(self, topics: Iterable[str]) -> list[TopicPartition]:
        return [
            TopicPartition(topic, partition)
            for topic in topics
            for partition in self.assignments.get(topic, ())
        ]

    def partitions_on(self, broker: int) -> list[TopicPartition]:
        return [one for one in self.all_partitions() if broker in self.replicas_of(one)]

    def assignment(self, partition: TopicPartition) -> ReplicaAssignment:
        known = self.assignments.get(partition.topic, {}).get(partition.partition)
        return known or ReplicaAssignment(())

    def replicas_of(self, partition: TopicPartition) -> tuple[int, ...]:
        return self.assignment(partition).replicas

    def next_state(self, partition: TopicPartition, state: PartitionState) -> PartitionState:
        """The state with the next leader epoch, and without brokers that are replicas no more.

        Before 2.7 a leader that does not know of a new assignment yet may write its ISR with them;
        Kafka leaves them there, and elects them when they return with empty logs.
        """
        assigned = self.replicas_of(partition)
        isr = tuple(one for one in state.isr if one in assigned)
        is_led = state.leader in (NO_LEADER, *isr)
        return replace(
            state,
            leader_epoch=state.leader_epoch + 1,
            controller_epoch=self.epoch,
            isr=isr if isr and is_led else state.isr,
        )

    def assign(self, partition: TopicPartition, assignment: ReplicaAssignment) -> None:
        self.assignments.setdefault(partition.topic, {})[partition.partition] = assignment

    def live_replicas(self, partition: TopicPartition) -> list[int]:
        return [one for one in self.replicas_of(partition) if self.is_online(one, partition)]

    def replicas_for(self, partitions: Iterable[TopicPartition]) -> list[Replica]:
        return [Replica(one, broker) for one in partitions for broker in self.replicas_of(one)]

    def replicas_on(self, brokers: Iterable[int]) -> list[Replica]:
        return [Replica(one, broker) for broker in brokers for one in self.partitions_on(broker)]

    def is_queued_for_deletion(self, topic: str) -> bool:
        return topic in self.to_delete

    def partitions_with_offline_leader(self) -> list[TopicPartition]:
        return [
            one
            for one, leadership in self.leaderships.items()
            if not self.is_online(leadership.state.leader, one)
            and not self.is_queued_for_deletion(one.topic)
        ]

    def partitions_in(self, *phases: PartitionPhase) -> list[TopicPartition]:
        return [one for one, phase in self.partition_phases.items() if phase in phases]

    def replicas_in(self, topic: str, phase: ReplicaPhase) -> list[Replica]:
        return [
            one
            for one in self.replicas_for(self.partitions_of([topic]))
            if self.phase(one) is phase
        ]

    def phase(self, replica: Replica) -> ReplicaPhase:
        return self.replica_phases.get(replica, ReplicaPhase.NON_EXISTENT)

    def remove_topic(self, topic: str) -> None:
        for partition in self.partitions_of([topic]):
            self.leaderships.pop(partition, None)
            self.partition_phases.pop(partition, None)
            self.reassigning.discard(partition)
            for broker in self.replicas_of(partition):
                self.replica_phases.pop(Replica(partition, broker), None)
            for offline in self.offline_directories.values():
                offline.discard(partition)
        self.assignments.pop(topic, None)
        topic_id = self.topic_ids.pop(topic, None)
        if topic_id is not None:
            self.topic_names.pop(topic_id, None)
        for topics in (self.to_delete, self.deletion_started, self.deletion_ineligible):
            topics.discard(topic)
