"""All topics of a cluster, from this broker's metadata.

Coordinators need partitions on other brokers too. Kafka's counterpart: `ZkMetadataCache`.
"""

from collections.abc import Callable, Iterator

from ottla.base.ids import Uuid
from ottla.base.partitions import TopicPartition
from ottla.metadata.image import MetadataImage, TopicImage
from ottla.zookeeper.topics import NO_LEADER


class ClusterTopics:
    """The known topics of a cluster; a single broker uses `Topics` instead."""

    def __init__(self, metadata: Callable[[], MetadataImage]) -> None:
        self._metadata = metadata

    @property
    def revision(self) -> int:
        return self._metadata().revision

    def __iter__(self) -> Iterator[TopicImage]:
        return iter(self._metadata().topics.values())

    def find(self, name: str) -> TopicImage | None:
        return self._metadata().topics.get(name)

    def name_by_id(self, topic_id: bytes) -> str | None:
        """Returns `None` for an unknown id."""
        return self._metadata().topic_names.get(Uuid(topic_id))

    def has_partition(self, partition: TopicPartition) -> bool:
        return self._metadata().partition(partition) is not None

    # For coordinators

    def partition_count(self, topic: str) -> int | None:
        """Returns `None` for a topic that does not exist."""
        known = self._metadata().topics.get(topic)
        return None if known is None else len(known.partitions)

    def leader_of(self, partition: TopicPartition) -> int | None:
        """Returns -1 without a live leader, and `None` for a partition that does not exist.

        Before the controller's first update, all partitions are unknown, and the result is -1.
        """
        metadata = self._metadata()
        known = metadata.partition(partition)
        if known is None:
            return None if metadata.topics else NO_LEADER
        return known.leader if known.leader in metadata.brokers else NO_LEADER
