"""The topics on this broker's disks by name and by id, and the checks of new ones.

Kafka's counterparts: `ReplicaManager.allPartitions` and the checks of
`ReplicationControlManager.createTopic`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import Final, Protocol

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.ids import ZERO_UUID, Uuid
from ottla.base.partitions import TopicPartition
from ottla.base.values import dataclass
from ottla.broker.events import TopicCreated
from ottla.broker.topics.partition import Partition
from ottla.broker.topics.topic_rules import INTERNAL_TOPICS, check_name, metric_name
from ottla.config.topic import TopicConfig
from ottla.storage.files.filenames import CLUSTER_METADATA
from ottla.storage.files.known_topics import TopicEntry

MAX_PARTITION_COUNT: Final = 10_000
"""The most that Kafka's controller creates in one request."""

POLICY_NAME = "cleanup.policy"


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTopic:
    """A topic to create; -1 stands for the broker's default.

    `assignments` are broker ids by partition, and replace both counts. `topic_id` is the id of a
    topic elsewhere that this one is a copy of, whose settings may be `unknown`; other topics get a
    new id.
    """

    name: str
    partition_count: int = -1
    replication_factor: int = -1
    assignments: Mapping[int, list[int]] = field(default_factory=dict)
    overrides: Mapping[str, str | None] = field(default_factory=dict)
    topic_id: Uuid | None = None
    unknown: str | None = None
    """Why its settings are not known, if they are not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicGrowth:
    """The new partition count of a topic; `assignments` are the brokers of the new partitions."""

    name: str
    partition_count: int
    assignments: Sequence[Sequence[int]] | None = None


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

    def __init__(self, entry: TopicEntry, config: TopicConfig) -> None:
        self.name = entry.name
        self.is_internal = entry.name in INTERNAL_TOPICS
        self.topic_id = entry.topic_id
        self.overrides = dict(entry.overrides)
        self.partition_count = entry.partition_count
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
        gone = {one.index for one in self.partitions.values() if one.directory.is_offline}
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

    def entry(self) -> TopicEntry:
        """Returns what the metadata log has of the topic."""
        return TopicEntry(
            name=self.name,
            topic_id=self.topic_id,
            partition_count=self.partition_count,
            overrides=self.overrides,
        )


class Topics:
    """Those with a partition on this broker; lookups raise `ApiError` with the code for the client.

    Which topics there are is asked of the metadata's image.
    """

    def __init__(self) -> None:
        self._by_name: dict[str, Topic] = {}
        self._by_id: dict[bytes, Topic] = {}
        self._reserved: set[str] = set()
        self._by_metric_name: dict[str, set[str]] = {}

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
        if partition.directory.is_offline:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR)
        return partition

    def is_online(self, place: TopicPartition) -> bool:
        """Whether a partition is here, on a disk that has not failed."""
        topic = self._by_name.get(place.topic)
        partition = None if topic is None else topic.partitions.get(place.partition)
        return partition is not None and not partition.directory.is_offline

    def add(self, topic: Topic) -> None:
        assert topic.name not in self._by_name
        self._by_name[topic.name] = topic
        self._by_metric_name.setdefault(metric_name(topic.name), set()).add(topic.name)
        if topic.topic_id != ZERO_UUID:
            self._by_id[topic.topic_id] = topic

    def remove(self, topic: Topic) -> None:
        """Removes a topic, and its partitions for requests that still have it."""
        del self._by_name[topic.name]
        self._by_id.pop(topic.topic_id, None)
        topic.partitions = {}
        topic.offline_indexes = {}
        self._forget_name(topic.name)

    def reserve(self, name: str) -> None:
        """Keeps a name from other requests while a topic is being created or deleted."""
        self._reserved.add(name)
        self._by_metric_name.setdefault(metric_name(name), set()).add(name)

    def release(self, name: str) -> None:
        """Ends the reservation of a name, after the creation or deletion."""
        self._reserved.discard(name)
        if name not in self._by_name:
            self._forget_name(name)

    def _forget_name(self, name: str) -> None:
        shown = metric_name(name)
        others = self._by_metric_name.get(shown, set())
        others.discard(name)
        if not others:
            self._by_metric_name.pop(shown, None)

    def check_new_name(self, name: str) -> None:
        """Raises `ApiError` if no topic of that name can be created."""
        check_name(name)
        if name == CLUSTER_METADATA:
            # The code that Kafka's controller answers with (`ControllerApis.createTopics`).
            raise ApiError(
                ErrorCode.TOPIC_AUTHORIZATION_FAILED,
                f"'{name}' is the name of Kafka's metadata log, and no topic's.",
            )
        if name in self._by_name:
            raise ApiError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
        if name in self._reserved:
            raise ApiError(
                ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' is being made or deleted."
            )
        for other in self._by_metric_name.get(metric_name(name), ()):
            raise ApiError(
                ErrorCode.INVALID_TOPIC_EXCEPTION,
                f"Topic '{name}' collides with the existing topic '{other}': "
                "metrics do not distinguish '.' from '_'.",
            )


class TopicCreator(Protocol):
    def create_topic(self, new: NewTopic) -> Topic:
        """Creates a topic durably; raises `ApiError`."""


def created(topic: Topic) -> TopicCreated:
    """The event of its creation."""
    return TopicCreated(
        topic=topic.name, partition_count=topic.partition_count, settings=dict(topic.overrides)
    )


def partition_count_of(new: NewTopic, *, default: int, node_id: int) -> int:
    """Returns the number of partitions to create; raises `ApiError` for an unsupported size."""
    if new.assignments:
        return _check_assignments(new, node_id)
    if new.replication_factor not in (-1, 1):
        code = ErrorCode.INVALID_REPLICATION_FACTOR
        if new.replication_factor < 1:
            raise ApiError(code, "The replication factor must be 1 or more, or -1.")
        raise ApiError(
            code, f"The replication factor {new.replication_factor} exceeds the 1 broker there is."
        )
    count = default if new.partition_count == -1 else new.partition_count
    check_partition_count(count)
    return count


def check_partition_count(count: int) -> None:
    """Raises `ApiError` unless a new topic may have this number of partitions."""
    if not 1 <= count <= MAX_PARTITION_COUNT:
        raise ApiError(
            ErrorCode.INVALID_PARTITIONS,
            f"The number of partitions must be 1 to {MAX_PARTITION_COUNT}, not {count}.",
        )


def check_total_count(count: int) -> None:
    """Raises `ApiError` unless one request may create so many partitions in all its topics."""
    if count > MAX_PARTITION_COUNT:
        raise ApiError(
            ErrorCode.POLICY_VIOLATION,
            f"One request makes at most {MAX_PARTITION_COUNT} partitions, not {count}.",
        )


def check_grown_count(name: str, count: int, wanted: int) -> None:
    """Raises `ApiError` unless a topic of `count` partitions may have `wanted`."""
    if wanted == count:
        raise ApiError(ErrorCode.INVALID_PARTITIONS, f"Topic already has {count} partition(s).")
    if wanted < count:
        raise ApiError(
            ErrorCode.INVALID_PARTITIONS,
            f"The topic {name} currently has {count} partition(s); "
            f"{wanted} would not be an increase.",
        )
    if wanted > MAX_PARTITION_COUNT:
        raise ApiError(
            ErrorCode.INVALID_PARTITIONS, f"A topic has at most {MAX_PARTITION_COUNT} partitions."
        )


def _check_assignments(new: NewTopic, node_id: int) -> int:
    if new.partition_count != -1 or new.replication_factor != -1:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            "With replicas assigned, the partitions and the replication factor must be -1.",
        )
    count = len(new.assignments)
    if sorted(new.assignments) != list(range(count)) or count > MAX_PARTITION_COUNT:
        raise ApiError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, "Partitions must be assigned from 0 on, gapless."
        )
    if any(replicas != [node_id] for replicas in new.assignments.values()):
        raise ApiError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"The only broker there is has the id {node_id}."
        )
    return count


def check_growth(growth: TopicGrowth, topic: Topic, *, node_id: int) -> None:
    """Raises `ApiError` if the topic cannot be extended so.

    Kafka: `ReplicationControlManager.createPartitions`.
    """
    count, wanted = topic.partition_count, growth.partition_count
    if topic.is_internal:
        raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"'{topic.name}' is internal.")
    check_grown_count(topic.name, count, wanted)
    if growth.assignments is None:
        return
    if len(growth.assignments) != wanted - count:
        raise ApiError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"{wanted - count} partition(s) are added, but {len(growth.assignments)} assigned.",
        )
    if any(list(replicas) != [node_id] for replicas in growth.assignments):
        raise ApiError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"The only broker there is has the id {node_id}."
        )
