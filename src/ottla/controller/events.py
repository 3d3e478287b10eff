"""The controller's events and responses. A response has the `pending_id` of its request. Kafka's
counterparts: the `ControllerEvent`s.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import field
from typing import TypeAlias

from ottla.base.error_codes import ErrorCode
from ottla.base.ids import Uuid
from ottla.base.partitions import TopicPartition
from ottla.base.values import dataclass
from ottla.metadata.altered_isr import AlteredIsr as AlteredIsr
from ottla.zookeeper.controllers import ProducerIdBlock
from ottla.zookeeper.topics import PartitionState, ReplicaAssignment


@dataclass(frozen=True, slots=True)
class Elect:
    """The broker has registered and may become the controller."""


@dataclass(frozen=True, slots=True)
class SessionLost:
    """ZooKeeper's session has expired: this broker is no longer the controller."""


@dataclass(frozen=True, slots=True)
class NodeChanged:
    """A watch of the controller has fired."""

    path: str


@dataclass(frozen=True, slots=True)
class RebalanceDue:
    """`leader.imbalance.check.interval.seconds` have passed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderAndIsrAnswered:
    """A broker's response for each partition that it should lead or follow."""

    broker: int
    broker_epoch: int
    errors: Mapping[TopicPartition, ErrorCode]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionAnswered:
    """The partitions that a StopReplica deleted, and those that it could not."""

    broker: int
    broker_epoch: int
    errors: Mapping[TopicPartition, ErrorCode]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterPartition:
    pending_id: Hashable
    broker: int
    broker_epoch: int
    changes: Sequence[AlteredIsr]
    version: int = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class AlteredAnswer:
    """The response for one partition; `state` is the current one, if known."""

    change: AlteredIsr
    error: ErrorCode = ErrorCode.NONE
    state: PartitionState | None = None
    partition_epoch: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlledShutdown:
    pending_id: Hashable
    broker: int
    broker_epoch: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectLeaders:
    """`partitions` of `None` means all."""

    pending_id: Hashable
    partitions: Sequence[TopicPartition] | None
    is_unclean: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterReassignments:
    """The requested replicas of partitions; `None` cancels a reassignment. Without
    `may_change_count` a partition keeps its number of replicas (KIP-860).
    """

    pending_id: Hashable
    wanted: Mapping[TopicPartition, tuple[int, ...] | None]
    may_change_count: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ListReassignments:
    pending_id: Hashable
    partitions: Sequence[TopicPartition] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocateProducerIds:
    pending_id: Hashable
    broker: int
    broker_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTopic:
    pending_id: Hashable
    topic: str
    assignment: Mapping[int, tuple[int, ...]]
    topic_id: Uuid | None = None
    settings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatePartitions:
    """`assignment` covers only the new partitions."""

    pending_id: Hashable
    topic: str
    assignment: Mapping[int, tuple[int, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteTopic:
    pending_id: Hashable
    topic: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateFeature:
    """A level of 0 removes the feature."""

    pending_id: Hashable
    name: str
    max_version_level: int


Request: TypeAlias = (
    AlterPartition
    | ControlledShutdown
    | ElectLeaders
    | AlterReassignments
    | ListReassignments
    | AllocateProducerIds
    | CreateTopic
    | CreatePartitions
    | DeleteTopic
    | UpdateFeature
)
Event: TypeAlias = (
    Elect
    | SessionLost
    | NodeChanged
    | RebalanceDue
    | LeaderAndIsrAnswered
    | DeletionAnswered
    | Request
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The response to a request; only the fields of its kind are set."""

    error: ErrorCode = ErrorCode.NONE
    altered: tuple[AlteredAnswer, ...] = ()
    remaining: tuple[TopicPartition, ...] = ()
    errors: Mapping[TopicPartition, ErrorCode] = field(default_factory=dict)
    reassignments: Mapping[TopicPartition, ReplicaAssignment] = field(default_factory=dict)
    producer_ids: ProducerIdBlock | None = None
