"""The topics on this broker's disks by name and by id: they follow the image.

Kafka's counterpart: `ReplicaManager.allPartitions`.
"""

from collections.abc import Iterator
from typing import Protocol

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.ids import ZERO_UUID
from ottla.base.partitions import TopicPartition
from ottla.broker.events import TopicCreated
from ottla.broker.topics.partition import Partition
from ottla.config.topic import TopicConfig
from ottla.metadata.deciding.topic_rules import INTERNAL_TOPICS, stored_config
from ottla.metadata.deciding.topics import NewTopic
from ottla.metadata.image import MetadataImage, TopicImage


class Topic:
    """A topic, with its partitions on this broker's disks."""

    __slots__ = (
        "config",
        "is_internal",
        "name",
        "offline_indexes",
        "overrides",
        "partition_count",
        "partitions",
        "topic_id",
    )

    def __init__(self, image: TopicImage, config: TopicConfig) -> None:
        self.name = image.name
        self.is_internal = image.name in INTERNAL_TOPICS
        self.topic_id = image.topic_id
        self.overrides = dict(image.configs)
        self.partition_count = image.partition_count
        self.config = config
        self.partitions: dict[int, Partition] = {}
        self.offline_indexes: dict[int, str] = {}
        """Offline partitions, and why: they may be in a directory that could not be opened, or are
        refused until a user has repaired them.
        """

    @property
    def known_indexes(self) -> list[int]:
        if not self.offline_indexes:
            return sorted(self.partitions)
        return sorted(self.partitions.keys() | self.offline_indexes.keys())

    @property
    def leaderless_indexes(self) -> list[int]:
        """The partitions that cannot be written or read."""
        gone = {one.index for one in self.partitions.values() if one.is_offline}
        return sorted(gone | self.offline_indexes.keys())

    def partition(self, index: int) -> Partition:
        """Raises `ApiError`: UNKNOWN_TOPIC_OR_PARTITION, or KAFKA_STORAGE_ERROR if offline."""
        partition = self.partitions.get(index)
        if partition is not None:
            return partition
        reason = self.offline_indexes.get(index)
        if reason is not None:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, reason)
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def topic_elsewhere(image: TopicImage, defaults: TopicConfig) -> Topic:
    """One of the image that has no partition here, or none yet, with its settings."""
    config, _ = stored_config(defaults, image.configs)
    return Topic(image, config)


def known_topic(
    topics: "Topics", image: MetadataImage, name: str, defaults: TopicConfig
) -> Topic | None:
    """A topic of this broker, or else of the image: its files may be elsewhere, or be made."""
    here, known = topics.find(name), image.topics.get(name)
    if here is not None or known is None:
        return here
    return topic_elsewhere(known, defaults)


class Topics:
    """Those with a partition on this broker; lookups raise `ApiError` with the code for the client.

    Which topics there are is asked of the metadata's image.
    """

    def __init__(self) -> None:
        self._by_name: dict[str, Topic] = {}
        self._by_id: dict[bytes, Topic] = {}

    def __iter__(self) -> Iterator[Topic]:
        return iter(self._by_name.values())

    def __len__(self) -> int:
        return len(self._by_name)

    def find(self, name: str) -> Topic | None:
        return self._by_name.get(name)

    def get(self, name: str) -> Topic:
        """Raises `ApiError(UNKNOWN_TOPIC_OR_PARTITION)`."""
        topic = self._by_name.get(name)
        if topic is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return topic

    def find_by_id(self, topic_id: bytes) -> Topic | None:
        return self._by_id.get(topic_id)

    def name_by_id(self, topic_id: bytes) -> str | None:
        """Returns `None` for an unknown id."""
        topic = self._by_id.get(topic_id)
        return None if topic is None else topic.name

    def partition(self, name: str, index: int) -> Partition:
        """As `get` and `Topic.partition`."""
        return self.get(name).partition(index)

    def online_partition(self, name: str, index: int) -> Partition:
        """As `partition`; also raises KAFKA_STORAGE_ERROR if its directory has gone offline since.

        For responses from memory; accesses to the disk raise the error themselves.
        """
        partition = self.partition(name, index)
        if partition.is_offline:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR)
        return partition

    def is_online(self, place: TopicPartition) -> bool:
        """Whether a partition is here, on a disk that has not failed."""
        topic = self._by_name.get(place.topic)
        partition = None if topic is None else topic.partitions.get(place.partition)
        return partition is not None and not partition.is_offline

    def add(self, topic: Topic) -> None:
        assert topic.name not in self._by_name
        self._by_name[topic.name] = topic
        if topic.topic_id != ZERO_UUID:
            self._by_id[topic.topic_id] = topic

    def remove(self, topic: Topic) -> None:
        """Removes a topic, and its partitions for requests that still have it."""
        del self._by_name[topic.name]
        self._by_id.pop(topic.topic_id, None)
        topic.partitions = {}
        topic.offline_indexes = {}


class TopicCreator(Protocol):
    def create_topic(self, new: NewTopic) -> Topic:
        """Creates a topic durably; raises `ApiError`."""


def created(topic: Topic) -> TopicCreated:
    """The event of its creation."""
    return TopicCreated(
        topic=topic.name, partition_count=topic.partition_count, settings=dict(topic.overrides)
    )
