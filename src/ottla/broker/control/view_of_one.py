"""The cluster of a broker alone: it leads all it has, and is its own controller."""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.partitions import TopicPartition
from ottla.broker.topics.topics import Topics
from ottla.metadata.cluster_view import NO_EPOCH, NO_LEADER, Node, PartitionView, Reach

FEATURES: Final[Mapping[str, tuple[int, int]]] = {
    "group.version": (0, 1),
    "kraft.version": (0, 1),
    "metadata.version": (1, 25),
    "transaction.version": (0, 2),
}
"""Level 25 of `metadata.version` is 4.0-IV3: Kafka finalizes these levels of `group.version` and
`transaction.version` from 4.0 on. `ottla handover` writes level 21, 3.9-IV0, and neither of them.
"""


class ViewOfOne:
    """`is_available`: whether the partition with a key of an internal topic is online and read."""

    has_peers: Final = False
    features: Final = FEATURES

    def __init__(
        self, node_id: int, topics: Topics, is_available: Callable[[str, str], bool]
    ) -> None:
        self.controller_id: Final = node_id
        self._topics = topics
        self._is_available = is_available

    def nodes(self, reach: Reach) -> list[Node]:
        return [Node(self.controller_id, *reach.address)]

    def node(self, node_id: int, reach: Reach) -> Node | None:
        return Node(node_id, *reach.address) if node_id == self.controller_id else None

    def partitions(self, topic: str, listener: str) -> Iterable[PartitionView]:
        known = self._topics.find(topic)
        if known is None:
            return
        replicas = (self.controller_id,)
        for index in known.known_indexes:
            partition = known.partitions.get(index)
            is_offline = partition is None or partition.directory.is_offline
            yield PartitionView(
                index,
                ErrorCode.LEADER_NOT_AVAILABLE if is_offline else ErrorCode.NONE,
                NO_LEADER if is_offline else self.controller_id,
                NO_EPOCH if partition is None else partition.leader_epoch,
                replicas,
                replicas,
                replicas if is_offline else (),
            )

    def leader_of(self, place: TopicPartition) -> tuple[int, int]:
        try:
            return self.controller_id, self._topics.partition(*place).leader_epoch
        except ApiError:
            return NO_LEADER, NO_EPOCH

    def coordinator_of(self, topic: str, key: str) -> int:
        if self._is_available(topic, key):
            return self.controller_id
        raise ApiError(
            ErrorCode.COORDINATOR_NOT_AVAILABLE,
            f"The log directory of the partition of {topic} is offline, or damaged.",
        )
