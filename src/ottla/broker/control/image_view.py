"""The cluster of a broker: by its image, and by what it knows of its own disks before others do."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final, Protocol

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.partitions import CONSUMER_OFFSETS, SHARE_GROUP_STATE, TopicPartition
from ottla.broker.metadata.image_store import ImageStore
from ottla.broker.topics.partition import Partition
from ottla.broker.topics.topics import Topics
from ottla.coordinator.placement import partition_for
from ottla.metadata.brokers import BrokerRegistration
from ottla.metadata.cluster_view import (
    NO_CONTROLLER,
    NO_LEADER,
    ControllerNodes,
    FinalizedFeatures,
    Node,
    PartitionView,
    Reach,
)
from ottla.metadata.levels import SUPPORTED
from ottla.storage.directory.log_directories import LogDirectories

if TYPE_CHECKING:
    from ottla.broker.groups.coordinator import GroupCoordinator
    from ottla.broker.replicas.only_replicas import OnlyReplicas
    from ottla.broker.replicas.replicas import Replicas
    from ottla.broker.shares.coordinator import ShareCoordinator
    from ottla.broker.transactions.coordinator import TransactionCoordinator

    class ViewingBroker(Protocol):
        """The parts of a broker that know of the cluster."""

        node_id: int
        image_store: ImageStore
        topics: Topics
        directories: LogDirectories
        replicas: OnlyReplicas | Replicas

        @property
        def groups(self) -> GroupCoordinator: ...

        @property
        def share_coordinator(self) -> ShareCoordinator: ...

        @property
        def transactions(self) -> TransactionCoordinator: ...


ALONE_EPOCH: Final = 1
"""The features of a broker alone do not change while it runs, so their epoch is always this."""


class ImageView:
    def __init__(
        self, broker: "ViewingBroker", features: Mapping[str, tuple[int, int]], *, has_peers: bool
    ) -> None:
        self.features: Final = features
        self.has_peers: Final = has_peers
        self._broker = broker
        self._node_id = broker.node_id
        self._known = broker.image_store

    @property
    def finalized(self) -> FinalizedFeatures:
        """A broker alone takes part in all that it supports."""
        levels = {name: newest for name, (_, newest) in self.features.items()}
        return FinalizedFeatures(levels, ALONE_EPOCH)

    def level(self, feature: str) -> int:
        return SUPPORTED[feature][1]

    @property
    def controller_id(self) -> int:
        image = self._known.image
        return image.controller if image.controller in image.brokers else NO_CONTROLLER

    def controllers(self, reach: Reach) -> ControllerNodes | None:
        return None

    def nodes(self, reach: Reach, *, with_fenced: bool = False) -> list[Node]:
        known = self._known.image.brokers
        found = (
            self._node(one, known[one], reach)
            for one in sorted(known)
            if with_fenced or not known[one].is_fenced
        )
        return [one for one in found if one is not None]

    def node(self, node_id: int, reach: Reach) -> Node | None:
        known = self._known.image.brokers.get(node_id)
        if known is None or known.is_fenced:
            return None
        return self._node(node_id, known, reach)

    def _node(self, node_id: int, known: BrokerRegistration, reach: Reach) -> Node | None:
        """A client reaches the broker that it asks where it does so, unless that has said where."""
        endpoint = known.endpoint(reach.listener)
        if endpoint is not None:
            return Node(node_id, endpoint.host, endpoint.port, known.rack, known.is_fenced)
        if node_id != self._node_id:
            return None
        return Node(node_id, *reach.address, known.rack, known.is_fenced)

    def partitions(self, topic: str, listener: str) -> Iterable[PartitionView]:
        image, here = self._known.image, self._broker.topics.find(topic)
        views = image.partitions(topic, listener, self._node_id)
        partitions = {} if here is None else here.partitions
        known = image.topics.get(topic)
        are_all_here = known is None or len(partitions) == len(known.partitions)
        lost = self._broker.replicas.lost
        directories = self._broker.directories
        if are_all_here and directories.is_complete and not (lost or directories.refuse_some):
            return views
        served = {index: one for index, one in partitions.items() if (topic, index) not in lost}
        return (one if self._is_served(one, served) else self._without(one) for one in views)

    def _is_served(self, view: PartitionView, here: Mapping[int, Partition]) -> bool:
        """Whether a partition is elsewhere, or here, sound and on a disk that has not failed.

        That of a new topic is in the image before it is here.
        """
        if self._node_id not in view.replicas:
            return True
        partition = here.get(view.partition)
        return partition is not None and not partition.is_offline

    def _without(self, view: PartitionView) -> PartitionView:
        """A partition whose replica here is offline."""
        offline = (*(one for one in view.offline if one != self._node_id), self._node_id)
        if view.leader != self._node_id:
            return view._replace(offline=offline)
        error = ErrorCode.LEADER_NOT_AVAILABLE
        return view._replace(error=error, leader=NO_LEADER, offline=offline)

    def leader_of(self, place: TopicPartition) -> tuple[int, int]:
        return self._broker.replicas.leader_of(place)

    def coordinator_of(self, topic: str, key: str) -> int:
        image = self._known.image
        known = image.topics.get(topic)
        if known is None:
            if not self.has_peers:
                return self._node_id  # which makes the topic when there is something to keep
            raise _not_available(f"The topic {topic} is being made.")
        index = partition_for(key, len(known.partitions))
        partition = known.partitions.get(index)
        leader = NO_LEADER if partition is None else partition.leader
        if not image.is_live(leader):
            raise _not_available(f"{topic}-{index} has no leader that can be reached.")
        if leader == self._node_id and not self._is_read(topic, key):
            raise _not_available(f"The log directory of {topic}-{index} is offline, or damaged.")
        return leader

    def _is_read(self, topic: str, key: str) -> bool:
        """Whether this broker's partition of an internal topic is online and was read."""
        broker = self._broker
        if topic == CONSUMER_OFFSETS:
            return broker.groups.is_available(key)
        if topic == SHARE_GROUP_STATE:
            return broker.share_coordinator.is_available(key)
        return broker.transactions.is_available(key)


def _not_available(reason: str) -> ApiError:
    return ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE, reason)
