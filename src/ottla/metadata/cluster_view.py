"""The cluster as clients see it: brokers that they can reach, leaders, coordinators.

Handlers ask a `ClusterView`, and never what kind of broker they run in. Kafka's counterpart:
`MetadataCache`.
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, Protocol

from ottla.base.error_codes import ErrorCode
from ottla.base.partitions import TopicPartition

NO_CONTROLLER: Final = -1
NO_LEADER: Final = -1
NO_EPOCH: Final = -1


class PartitionView(NamedTuple):
    """A partition as Metadata presents it to clients of one listener."""

    partition: int
    error: ErrorCode
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline: tuple[int, ...]
    elr: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()


class Node(NamedTuple):
    """A broker, at the address at which clients of a listener reach it."""

    id: int
    host: str
    port: int
    rack: str | None = None
    is_fenced: bool = False


class FinalizedFeatures(NamedTuple):
    """The level of each feature at which the cluster runs; a change has a higher epoch."""

    levels: Mapping[str, int]
    epoch: int


class ControllerNodes(NamedTuple):
    """The controllers of a quorum, as they are reached over one of their listeners."""

    leader_id: int
    nodes: "list[Node]"


class Reach(NamedTuple):
    """A client's listener, and the address at which it reaches this broker."""

    listener: str
    address: tuple[str, int]


class ClusterView(Protocol):
    @property
    def has_peers(self) -> bool:
        """Whether other brokers and a controller ask this one: only then are their requests known,
        and responses of coordinators wait for replicas.
        """

    @property
    def features(self) -> Mapping[str, tuple[int, int]]:
        """The lowest and highest level of each feature that this broker supports."""

    @property
    def finalized(self) -> FinalizedFeatures: ...

    def level(self, feature: str) -> int:
        """That by which this broker serves what depends on a feature: the newest where there are
        no features.
        """

    @property
    def controller_id(self) -> int:
        """-1 without a controller that is up. In a KRaft cluster it is any broker that is: clients
        of brokers do not reach controllers.
        """

    def controllers(self, reach: Reach) -> ControllerNodes | None:
        """`None` for who asks over a listener of the broker."""

    def nodes(self, reach: Reach, *, with_fenced: bool = False) -> list[Node]:
        """The brokers that the client can reach, in order of their ids; fenced ones are not up."""

    def node(self, node_id: int, reach: Reach) -> Node | None: ...

    def partitions(self, topic: str, listener: str) -> Iterable[PartitionView]:
        """The partitions of a topic, in order of their numbers."""

    def leader_of(self, place: TopicPartition) -> tuple[int, int]:
        """The leader and its epoch, or -1."""

    def coordinator_of(self, topic: str, key: str) -> int:
        """The broker with the partition of an internal topic that a key belongs to; raises
        `ApiError` if there is none now.
        """
