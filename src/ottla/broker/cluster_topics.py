"""All topics of a cluster, as this broker's metadata has them: coordinators look further than the
partitions that are here. Kafka's counterpart: `ZkMetadataCache`.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from ottla.base.ids import ZERO_UUID, Uuid
from ottla.base.partitions import TopicPartition
from ottla.broker.replication.metadata_cache import MetadataCache
from ottla.registries.topics import NO_LEADER


@dataclass(slots=True)
class ClusterTopic:
    name: str
    topic_id: Uuid
    partition_count: int


class ClusterTopics:
    """What is known now; what a broker that is alone asks its `Topics`, a member asks this."""

    def __init__(self, metadata: Callable[[], MetadataCache]) -> None:
        self._metadata = metadata
        self._seen: MetadataCache | None = None
        self._counts: Mapping[str, int] = {}
        self._revision = 0

    @property
    def revision(self) -> int:
        self._look()
        return self._revision

    def _look(self) -> MetadataCache:
        """Counts a revision where topics have come, gone or grown since the last look."""
        metadata = self._metadata()
        if metadata is not self._seen:
            self._seen = metadata
            counts = {name: len(partitions) for name, partitions in metadata.topics.items()}
            if counts != self._counts:
                self._counts = counts
                self._revision += 1
        return metadata

    def __iter__(self) -> Iterator[ClusterTopic]:
        metadata = self._look()
        return (self._topic(name, metadata) for name in list(self._counts))

    def find(self, name: str) -> ClusterTopic | None:
        metadata = self._look()
        return self._topic(name, metadata) if name in self._counts else None

    def _topic(self, name: str, metadata: MetadataCache) -> ClusterTopic:
        topic_id = metadata.topic_ids.get(name, ZERO_UUID)
        return ClusterTopic(name, topic_id, self._counts.get(name, 0))

    def name_by_id(self, topic_id: bytes) -> str | None:
        """`None` for an id that is not known."""
        return self._metadata().topic_names.get(Uuid(topic_id))

    def has_partition(self, partition: TopicPartition) -> bool:
        return self._metadata().partition(partition) is not None

    # For coordinators

    def partition_count(self, topic: str) -> int | None:
        """`None` for a topic that does not exist."""
        self._look()
        return self._counts.get(topic)

    def leader_of(self, partition: TopicPartition) -> int | None:
        """-1 where nobody leads, and `None` of a partition that does not exist.

        Before the controller has said anything, nothing is known of any partition.
        """
        metadata = self._metadata()
        known = metadata.partition(partition)
        if known is None:
            return None if metadata.topics else NO_LEADER
        return known.state.leader if known.state.leader in metadata.brokers else NO_LEADER
