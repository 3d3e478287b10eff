"""The cluster of one of its brokers: as the controller has said."""

from collections.abc import Iterable, Mapping
from typing import Final

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.partitions import TopicPartition
from ottla.broker.replication.replica_manager import ReplicaManager
from ottla.coordinator.placement import partition_for
from ottla.metadata.cluster_view import NO_CONTROLLER, NO_LEADER, Node, PartitionView, Reach
from ottla.metadata.image import MetadataImage

NOT_AVAILABLE: Final = ErrorCode.COORDINATOR_NOT_AVAILABLE


class ViewOfMany:
    """A cluster over ZooKeeper has no features of KRaft's: its brokers may be Kafka's."""

    has_peers: Final = True
    features: Final[Mapping[str, tuple[int, int]]] = {}

    def __init__(self, manager: ReplicaManager) -> None:
        self._manager = manager

    @property
    def _metadata(self) -> MetadataImage:
        return self._manager.metadata

    @property
    def controller_id(self) -> int:
        metadata = self._metadata
        return metadata.controller if metadata.controller in metadata.brokers else NO_CONTROLLER

    def nodes(self, reach: Reach) -> list[Node]:
        found = (self.node(one, reach) for one in sorted(self._metadata.brokers))
        return [one for one in found if one is not None]

    def node(self, node_id: int, reach: Reach) -> Node | None:
        metadata = self._metadata
        endpoint = metadata.endpoint(node_id, reach.listener)
        if endpoint is None:
            return None
        return Node(node_id, endpoint.host, endpoint.port, metadata.brokers[node_id].rack)

    def partitions(self, topic: str, listener: str) -> Iterable[PartitionView]:
        return self._metadata.partitions(topic, listener)

    def leader_of(self, place: TopicPartition) -> tuple[int, int]:
        return self._manager.leader_of(place)

    def coordinator_of(self, topic: str, key: str) -> int:
        image = self._metadata.topics.get(topic)
        if image is None:
            raise ApiError(NOT_AVAILABLE, f"The topic {topic} is being made.")
        index = partition_for(key, len(image.partitions))
        known = image.partitions.get(index)
        leader = NO_LEADER if known is None else known.leader
        if leader not in self._metadata.brokers:
            raise ApiError(NOT_AVAILABLE, f"{topic}-{index} has no leader that can be reached.")
        return leader
