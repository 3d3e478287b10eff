"""All topics, by this broker's metadata: in a cluster also those that are on other brokers only.

Kafka's counterpart: `MetadataCache`.
"""

from collections.abc import Iterator

from ottla.base.ids import Uuid
from ottla.base.partitions import TopicPartition
from ottla.metadata.cluster_view import NO_LEADER
from ottla.metadata.image import HasImage, TopicImage


class ImageTopics:
    def __init__(self, known: HasImage) -> None:
        self._known = known

    @property
    def revision(self) -> int:
        return self._known.image.revision

    def __iter__(self) -> Iterator[TopicImage]:
        return iter(self._known.image.topics.values())

    def find(self, name: str) -> TopicImage | None:
        return self._known.image.topics.get(name)

    def name_by_id(self, topic_id: bytes) -> str | None:
        """Returns `None` for an unknown id."""
        return self._known.image.topic_names.get(Uuid(topic_id))

    def has_partition(self, partition: TopicPartition) -> bool:
        return self._known.image.partition(partition) is not None

    # For coordinators

    def partition_count(self, topic: str) -> int | None:
        """Returns `None` for a topic that does not exist."""
        known = self._known.image.topics.get(topic)
        return None if known is None else len(known.partitions)

    def leader_of(self, partition: TopicPartition) -> int | None:
        """Returns -1 without a live leader, and `None` for a partition that does not exist.

        Before the controller's first update, all partitions are unknown, and the result is -1.
        """
        image = self._known.image
        known = image.partition(partition)
        if known is None:
            return None if image.topics else NO_LEADER
        return known.leader if image.is_live(known.leader) else NO_LEADER
