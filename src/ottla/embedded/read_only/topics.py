"""Topics and partitions by their files, as handlers ask a broker for them.

Each log is looked at once: a list of topics asks for the start, the end and the size of each.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property, partial
from typing import Any, Final, TypeVar

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError, CorruptionError
from ottla.base.files import join
from ottla.base.ids import ZERO_UUID, Uuid
from ottla.base.partitions import TopicPartition
from ottla.broker.topics.offered_ends import replicated_end
from ottla.config.topic import TopicConfig
from ottla.diagnosis.directories import Directories
from ottla.metadata.cluster_view import (
    NO_EPOCH,
    NO_LEADER,
    FinalizedFeatures,
    Node,
    PartitionView,
    Reach,
)
from ottla.metadata.image import TopicImage
from ottla.metadata.levels import SUPPORTED
from ottla.storage.files.filenames import PARTITION_METADATA, partition_directory_name
from ottla.storage.files.partition_metadata import read_topic_id
from ottla.storage.log.offsets import (
    EARLIEST_LOCAL_TIMESTAMP,
    EARLIEST_TIMESTAMP,
    LATEST_TIERED_TIMESTAMP,
    LATEST_TIMESTAMP,
    MAX_TIMESTAMP,
    FoundOffset,
    Isolation,
)
from ottla.storage.reading.locating import locate
from ottla.storage.reading.overtaking import ask_log
from ottla.storage.reading.read_only_directory import ReadOnlyLogDirectory
from ottla.storage.reading.read_only_log import ReadOnlyLog
from ottla.storage.reading.time_search import first_at

logger = logging.getLogger(__name__)

Answer = TypeVar("Answer")


class ReadOnlyTopic:
    """A topic of which at least one partition is here; `held` has the directory of each.

    `unread` says why its settings cannot be read, if they cannot.
    """

    def __init__(
        self, name: str, held: Mapping[int, ReadOnlyLogDirectory], directories: Directories
    ) -> None:
        self.name = name
        self.held = held
        self.unread: str | None = None
        self._directories = directories

    @property
    def _entry(self) -> TopicImage | None:
        return self._directories.entries.get(self.name)

    @cached_property
    def topic_id(self) -> Uuid:
        """Of the first partition whose file can be read, or else of the metadata log; zeros if none
        has one. No log is opened: whoever asks for its records is told what is wrong with it.
        """
        for index, directory in sorted(self.held.items()):
            name = partition_directory_name(self.name, index)
            path = join(directory.path, name, PARTITION_METADATA)
            try:
                found = read_topic_id(directory.file_system, path)
            except CorruptionError as error:
                logger.warning("%s", error)
                continue
            if found is not None:
                return found
        return ZERO_UUID if self._entry is None else self._entry.topic_id

    @property
    def partition_count(self) -> int:
        entry = self._entry
        return max(max(self.held) + 1, 0 if entry is None else entry.partition_count)

    @property
    def config(self) -> TopicConfig:
        return self._directories.config(self.name)

    @property
    def overrides(self) -> Mapping[str, str]:
        """Raises `ApiError` if the settings cannot be read."""
        if self.unread is not None:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, self.unread)
        entry = self._entry
        return {} if entry is None else entry.configs


class ReadOnlyPartition:
    """A partition with its log's producers, by the names of an open partition."""

    def __init__(self, topics: "ReadOnlyTopics", place: TopicPartition) -> None:
        self._topics = topics
        self._place = place

    @property
    def log(self) -> "ReadOnlyPartition":
        return self

    @property
    def producers(self) -> "ReadOnlyPartition":
        return self

    @property
    def entries(self) -> Mapping[int, Any]:
        from ottla.storage.reading.producers import producers_of  # A list of topics needs none.

        return {one.producer_id: one for one in self._topics.ask(self._place, producers_of)}

    def find_offset(
        self,
        timestamp_ms: int,
        *,
        isolation: Isolation,
        leader_epoch: int = -1,
        in_tier: FoundOffset | None = None,
    ) -> FoundOffset | None:
        if timestamp_ms == LATEST_TIERED_TIMESTAMP:
            return self._topics.ask(self._place, self._topics.last_tiered)
        return self._topics.ask(self._place, partial(_offset_at, timestamp_ms, isolation))

    @property
    def size(self) -> int:
        return self._topics.size_of(self._place)


NO_FEATURES: Final = FinalizedFeatures({}, 1)


class ReadOnlyTopics:
    """The catalog, the view of the cluster, and the partitions of log directories.

    Damage that prevents an answer is raised, with the commands that help.
    """

    revision = 0
    has_peers = False
    features: Mapping[str, tuple[int, int]] = {}
    finalized = NO_FEATURES

    def __init__(self, directories: Directories, node_id: int) -> None:
        """Raises `UserError` for a partition that is in two directories."""
        self._directories = directories
        self._located = locate(directories.opened)
        self._found: dict[str, ReadOnlyTopic | None] = {}
        self._logs: dict[TopicPartition, ReadOnlyLog] = {}
        self.controller_id = node_id

    # The catalog

    def __iter__(self) -> Iterator[ReadOnlyTopic]:
        found = map(self.find, sorted(self._located))
        return (topic for topic in found if topic is not None)

    def find(self, name: str) -> ReadOnlyTopic | None:
        """Returns `None` for a deleted topic of which files are left, too."""
        if name not in self._found:
            held = self._located.get(name)
            topic = None if held is None else ReadOnlyTopic(name, held, self._directories)
            self._found[name] = None if topic is None or self._is_gone(topic) else topic
        return self._found[name]

    def _is_gone(self, topic: ReadOnlyTopic) -> bool:
        known = self._directories.found.known
        is_known = topic.name in known.entries or not known.gone
        return not is_known and topic.topic_id in known.gone

    def name_by_id(self, topic_id: bytes) -> str | None:
        return self._names.get(topic_id)

    @cached_property
    def _names(self) -> Mapping[bytes, str]:
        return {one.topic_id: one.name for one in self if one.topic_id != ZERO_UUID}

    # The view

    def level(self, feature: str) -> int:
        return SUPPORTED[feature][1]

    def controllers(self, reach: Reach) -> None:
        """There are none."""

    def nodes(self, reach: Reach, *, with_fenced: bool = False) -> list[Node]:
        return [Node(self.controller_id, *reach.address)]

    def node(self, node_id: int, reach: Reach) -> Node | None:
        return Node(node_id, *reach.address)

    def partitions(self, topic: str, listener: str) -> Iterable[PartitionView]:
        found = self.find(topic)
        if found is None:
            return
        replicas = (self.controller_id,)
        for index in range(found.partition_count):
            is_here = index in found.held
            yield PartitionView(
                index,
                ErrorCode.NONE if is_here else ErrorCode.LEADER_NOT_AVAILABLE,
                self.controller_id if is_here else NO_LEADER,
                NO_EPOCH,
                replicas,
                replicas,
                () if is_here else replicas,
            )

    def leader_of(self, place: TopicPartition) -> tuple[int, int]:
        return self.controller_id if place in self else NO_LEADER, NO_EPOCH

    def coordinator_of(self, topic: str, key: str) -> int:
        return self.controller_id

    # Partitions

    def look_again(self) -> None:
        """Looks at each log again where it is asked next."""
        self._logs.clear()

    def __contains__(self, place: TopicPartition) -> bool:
        return place.partition in self._located.get(place.topic, ())

    def places_in(self, directory: ReadOnlyLogDirectory) -> Iterator[TopicPartition]:
        """The partitions that a directory has now."""
        for topic, held in self._located.items():
            for index, holder in held.items():
                if holder is directory and directory.holds(topic, index):
                    yield TopicPartition(topic, index)

    def size_of(self, place: TopicPartition) -> int:
        """The size of a partition that is here."""
        return self._located[place.topic][place.partition].size_of(*place)

    def directories_of(self, topic: str) -> Iterator[tuple[TopicPartition, str]]:
        """The partitions of a topic, each with its log directory."""
        for index, directory in sorted(self._located.get(topic, {}).items()):
            yield TopicPartition(topic, index), directory.path

    def online_partition(self, topic: str, index: int) -> ReadOnlyPartition:
        """Raises `ApiError` for a partition that is not here."""
        place = TopicPartition(topic, index)
        if place not in self:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return ReadOnlyPartition(self, place)

    def last_tiered(self, log: ReadOnlyLog) -> FoundOffset:
        """The last offset in the tier, by the records about it; -1 without one."""
        return FoundOffset(self._directories.highest_remote_offset(log), -1, -1)

    def ask(self, place: TopicPartition, question: Callable[[ReadOnlyLog], Answer]) -> Answer:
        """Calls a function with the log of a partition that is here; raises as that does."""
        directory = self._located[place.topic][place.partition]

        def find() -> ReadOnlyLog:
            return self._logs.pop(place, None) or directory.partition(*place)

        def ask(log: ReadOnlyLog) -> Answer:
            answer = question(log)
            self._logs[place] = log
            return answer

        return ask_log(find, ask)


def _offset_at(timestamp_ms: int, isolation: Isolation, log: ReadOnlyLog) -> FoundOffset | None:
    start = log.log_start_offset
    if timestamp_ms in (EARLIEST_TIMESTAMP, EARLIEST_LOCAL_TIMESTAMP):
        return FoundOffset(start, -1, -1)
    end = readable_end(log, isolation)
    if timestamp_ms == LATEST_TIMESTAMP:
        return FoundOffset(end, -1, -1)
    if timestamp_ms == MAX_TIMESTAMP:
        headers = log.batches.headers(start, log.log_end_offset)
        timestamp_ms = max((one.max_timestamp_ms for one in headers), default=0)
    found = first_at(log, timestamp_ms)
    return None if found is None or found[0] >= end else FoundOffset(*found, -1)


def readable_end(log: ReadOnlyLog, isolation: Isolation) -> int:
    """The offset before which a consumer reads."""
    if isolation is Isolation.LOG_END:
        return log.log_end_offset
    end = replicated_end(log)
    return (
        min(end, log.transactions.last_stable_offset) if isolation is Isolation.LAST_STABLE else end
    )
