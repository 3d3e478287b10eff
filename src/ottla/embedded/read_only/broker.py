"""What handlers of requests that change nothing ask of a broker, over log directories.

Its parts have the names of an open broker's. Settings from a broker's start are in no directory,
and are treated as not given.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError, CorruptionError, StorageError
from ottla.base.files import DiskSpace
from ottla.base.partitions import TopicPartition
from ottla.base.timestamps import Timestamps
from ottla.broker.configs.settings import BrokerSettings
from ottla.diagnosis.directories import Directories
from ottla.embedded.read_only.known_settings import mark_unknown
from ottla.embedded.read_only.topics import (
    ReadOnlyPartition,
    ReadOnlyTopic,
    ReadOnlyTopics,
    readable_end,
)
from ottla.metadata.image import MetadataImage
from ottla.metadata.quotas import QuotaEntity
from ottla.storage.files.meta_properties import MetaProperties
from ottla.storage.index.transaction_index import AbortedTransaction
from ottla.storage.log.offsets import Isolation
from ottla.storage.reading.read_only_directory import ReadOnlyLogDirectory
from ottla.storage.reading.read_only_log import ReadOnlyLog

if TYPE_CHECKING:
    from ottla.broker.quotas.quota_changes import QuotaFilter
    from ottla.broker.records.fetch_sessions import FetchSessions
    from ottla.broker.waiting.fetch_queries import FetchQuery, FetchResult, PartitionQuery
    from ottla.coordinator.share.in_flight import InFlight
    from ottla.diagnosis.losses import OnLost
    from ottla.embedded.read_only.coordinators import (
        ReadOnlyEnds,
        ReadOnlyGroups,
        ReadOnlyShareGroups,
        ReadOnlyTransactions,
    )

logger = logging.getLogger(__name__)

UNKNOWN = -1
"""The last stable offset where nobody needs it: headers must be read for it."""


class ReadOnlySecurity(NamedTuple):
    """Users and rules; these restrict nobody here."""

    image: MetadataImage
    authorizer: bool = True


class ReadOnlyController:
    """Finds topics; changes nothing."""

    has_client_metrics = True

    def __init__(self, topics: ReadOnlyTopics, directories: Directories) -> None:
        self._topics = topics
        self._directories = directories
        self._told: set[str] = set()

    def find_topics(self, names: Sequence[str]) -> Mapping[str, ReadOnlyTopic]:
        found = [topic for topic in map(self._topics.find, names) if topic is not None]
        for line in mark_unknown(self._directories, found):
            if line not in self._told:
                self._told.add(line)
                logger.warning("%s", line)
        return {topic.name: topic for topic in found}


class ReadOnlyQuotas:
    def __init__(self, directories: Directories) -> None:
        self._quotas = directories.found.image.quotas

    def select_quotas(self, wanted: "QuotaFilter") -> list[tuple[QuotaEntity, Mapping[str, float]]]:
        wanted.check()
        return list(wanted.select(self._quotas))


class ReadRecords(NamedTuple):
    """As `storage.log.reader.FetchData`, which takes slices of files only where it is compiled."""

    records: memoryview | None
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted: list[AbortedTransaction] | None


class ReadOnlyFetches:
    """Nothing is waited for: no record comes."""

    def __init__(self, topics: ReadOnlyTopics) -> None:
        self._topics = topics

    def fetch(self, query: "FetchQuery") -> "FetchResult":
        from ottla.broker.waiting.fetch_queries import FetchResult

        found: list[Any] = [self._read(query, one) for one in query.partitions]
        has_error = any(isinstance(one, ApiError) for one in found)
        return FetchResult(found, sum(map(_size, found)), has_error)

    def fetch_or_wait(self, query: "FetchQuery", deadline_ms: float) -> "FetchResult":
        return self.fetch(query)

    fetch_many_or_wait = fetch_or_wait

    def search_tier(self, partition: object, timestamp_ms: int, leader_epoch: int) -> None:
        """There is nothing to wait for: the log is read with its tier as one."""

    def _read(self, query: "FetchQuery", wanted: "PartitionQuery") -> ReadRecords | ApiError:
        if wanted.topic is None and wanted.topic_id is not None:
            wanted.topic = self._topics.name_by_id(wanted.topic_id)
        if wanted.topic is None:
            return ApiError(ErrorCode.UNKNOWN_TOPIC_ID)
        place = TopicPartition(wanted.topic, wanted.index)
        try:
            self._topics.online_partition(*place)
            return self._topics.ask(place, lambda log: _read(log, query.isolation, wanted))
        except ApiError as error:
            return error.without_traceback()

    def refusal(
        self, error: ApiError, topic: str | None, index: int, topic_id: object = None
    ) -> ApiError:
        return error.without_traceback()


class DescribedDirectory:
    """A log directory as DescribeLogDirs describes it."""

    futures: Mapping[TopicPartition, Any] = {}

    def __init__(self, directory: ReadOnlyLogDirectory, topics: ReadOnlyTopics) -> None:
        self.path = directory.path
        self._directory = directory
        self._topics = topics

    def disk_space(self) -> DiskSpace:
        try:
            return self._directory.file_system.space(self.path)
        except OSError as error:
            raise StorageError(self.path, error.strerror or str(error)) from error

    @property
    def logs(self) -> Mapping[TopicPartition, ReadOnlyPartition]:
        places = self._topics.places_in(self._directory)
        return {place: ReadOnlyPartition(self._topics, place) for place in places}


class DescribedDirectories:
    def __init__(self, directories: Directories, topics: ReadOnlyTopics) -> None:
        self._directories = directories
        self._topics = topics

    def __iter__(self) -> Iterator[DescribedDirectory]:
        return (DescribedDirectory(one, self._topics) for one in self._directories.opened)

    def is_cordoned(self, directory: DescribedDirectory) -> bool:
        return False


class NoFollowers:
    def fetcher(self, *origin: object) -> None:
        """`None`: nobody follows, and no replica is nearer."""


class ReadOnlyShares:
    """Nobody delivers records here."""

    def in_flight(
        self, group_id: str, place: tuple[bytes, int], at: Timestamps
    ) -> list["InFlight"]:
        return []


class ReadOnlyBroker:
    """Shows the directories as they were when each part of them was first looked at."""

    replicas = NoFollowers()
    shares = ReadOnlyShares()

    def __init__(self, directories: Directories, on_lost: "OnLost") -> None:
        """`on_lost` takes a line for each partition of an internal topic of which a part cannot be
        read. Raises `UserError` for a partition that is in two directories.
        """
        self._on_lost = on_lost
        self.opened = directories
        properties = _properties(directories.opened[0])
        self.node_id = 0 if properties is None else properties.node_id or 0
        self.cluster_id = "" if properties is None else properties.cluster_id or ""
        given = {"broker.id": str(self.node_id), "node.id": str(self.node_id)}
        paths = ",".join(one.path for one in directories.opened)
        self.settings = BrokerSettings(
            given | {"log.dirs": paths}, directories.found.image, self.node_id
        )
        self.topics = self.catalog = self.view = ReadOnlyTopics(directories, self.node_id)
        self.controller = ReadOnlyController(self.topics, directories)
        self.security = ReadOnlySecurity(directories.found.image)
        self.admin = ReadOnlyQuotas(directories)
        self.directories = DescribedDirectories(directories, self.topics)
        self.fetches = ReadOnlyFetches(self.topics)

    # Most commands need neither groups nor transactions nor records.

    @cached_property
    def groups(self) -> "ReadOnlyGroups":
        from ottla.embedded.read_only.coordinators import ReadOnlyGroups

        return ReadOnlyGroups(self.topics, self.settings, self._on_lost)

    @cached_property
    def share_groups(self) -> "ReadOnlyShareGroups":
        from ottla.embedded.read_only.coordinators import ReadOnlyShareGroups

        return ReadOnlyShareGroups(self.topics, self._on_lost)

    @cached_property
    def end_offsets(self) -> "ReadOnlyEnds":
        from ottla.embedded.read_only.coordinators import ReadOnlyEnds

        return ReadOnlyEnds(self.topics)

    @cached_property
    def transactions(self) -> "ReadOnlyTransactions":
        from ottla.embedded.read_only.coordinators import ReadOnlyTransactions

        return ReadOnlyTransactions(self.opened, self._on_lost)

    @cached_property
    def fetch_sessions(self) -> "FetchSessions":
        """Of which there are none: each fetch names its partitions."""
        from ottla.broker.records.fetch_sessions import FetchSessions

        return FetchSessions(0, new_id=lambda: 1, max_partition_count=0)


def _properties(directory: ReadOnlyLogDirectory) -> MetaProperties | None:
    try:
        return directory.properties
    except CorruptionError as error:
        logger.warning("%s; the broker's id is not known, and is shown as 0", error)
        return None


def _read(log: ReadOnlyLog, isolation: Isolation, wanted: "PartitionQuery") -> ReadRecords:
    end = readable_end(log, isolation)
    region = next(log.batches.regions(wanted.offset, end, size=wanted.max_size), None)
    records, aborted = None, None
    if region is not None:
        for _ in log.batches.checked(region):
            pass  # raises for damage
        records = region.data
        if isolation is Isolation.LAST_STABLE:
            aborted = log.transactions.aborted(wanted.offset, min(region.next_offset, end))
    stable = end if isolation is Isolation.LAST_STABLE else UNKNOWN
    return ReadRecords(records, end, stable, log.log_start_offset, aborted)


def _size(found: ReadRecords | ApiError) -> int:
    return 0 if isinstance(found, ApiError) or found.records is None else len(found.records)
