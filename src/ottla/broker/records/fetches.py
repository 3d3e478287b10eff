"""Fetches of clients and followers, at once or once there are records.

Kafka's counterparts: `ReplicaManager.fetchMessages` and its purgatory of `DelayedFetch`.
"""

import logging
from collections.abc import Callable
from typing import Any, Protocol

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError, CorruptionError, StorageError
from ottla.base.ids import Uuid
from ottla.base.open_files import OpenFiles
from ottla.base.turns import many_in_turns
from ottla.broker.configs.settings import BrokerSettings
from ottla.broker.topics.partition import Partition, take_back
from ottla.broker.topics.topics import Topics
from ottla.broker.waiting.fetch_queries import FetchQuery, FetchResult, PartitionQuery
from ottla.broker.waiting.rooms import LongFetch, Waiting, WaitingFetch, WaitingRoom
from ottla.storage.log.reader import FetchData

logger = logging.getLogger(__name__)

LongPoll = WaitingFetch[FetchQuery, FetchResult]


class Others(Protocol):
    """What is known of the partitions that other brokers have."""

    def elsewhere(
        self, error: ApiError, topic: str | None, topic_id: Uuid | None, index: int
    ) -> ApiError:
        """Returns the error for a partition that this broker does not have."""


class Fetches:
    """`waiting` has the fetches that wait for records."""

    def __init__(
        self,
        topics: Topics,
        others: Others,
        settings: BrokerSettings,
        open_files: OpenFiles,
        waiting: WaitingRoom[FetchQuery, FetchResult],
    ) -> None:
        self._topics = topics
        self._others = others
        self._settings = settings
        self._open_files = open_files
        self.waiting = waiting

    def fetch(self, query: FetchQuery) -> FetchResult:
        """Reads the available records, in the query's order, within its limits."""
        return self._fetch(query, [])

    def _fetch(
        self, query: FetchQuery, found: list[Partition], watching: LongPoll | None = None
    ) -> FetchResult:
        """As `fetch`; adds existing partitions to `found`, and watches them."""
        results: list[FetchData | ApiError] = []
        left = min(query.max_size, self._settings.config.fetch_max_bytes)
        size = 0
        has_error = False
        for wanted in many_in_turns(query.partitions):
            one_anyway = size == 0 and not query.is_hard_limit
            try:
                partition = self._partition_of(query, wanted)
                found.append(partition)
                if watching is not None:
                    # Before the read: an append while other requests run must wake this fetch.
                    self.waiting.watch(watching, partition)
                max_size = min(wanted.max_size, left)
                data = self._read(partition, wanted, query, max_size, one_anyway)
            except ApiError as error:
                refusal = self.refusal(error, wanted.topic, wanted.index, wanted.topic_id)
                results.append(refusal)
                has_error = True
                continue
            results.append(data)
            if data.records is not None:
                read = data.records.size
                size += read
                left = max(0, left - read)
                partition.bytes_out += read
        return FetchResult(results, size, has_error)

    def refusal(
        self, error: ApiError, topic: str | None, index: int, topic_id: Uuid | None = None
    ) -> ApiError:
        """Returns the error for the client; in a cluster another broker may have the partition."""
        return self._others.elsewhere(error, topic, topic_id, index).without_traceback()

    def _partition_of(self, query: FetchQuery, wanted: PartitionQuery) -> Partition:
        """Finds the topic by its name or, if the query has only its id, by the id.

        Then sets the name in the query. Raises `ApiError`, also for a topic that the client may not
        read, whether or not it exists.
        """
        topic_id, may_read = wanted.topic_id, query.may_read
        if wanted.topic is None:
            topic = None if topic_id is None else self._topics.find_by_id(topic_id)
            if topic is None:
                raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID)
            if may_read is not None and not may_read(topic.name):
                raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            wanted.topic = topic.name
            return topic.partition(wanted.index)
        if may_read is not None and not may_read(wanted.topic):
            raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        topic = self._topics.get(wanted.topic)
        partition = topic.partition(wanted.index)
        if topic_id is not None and topic_id != topic.topic_id:
            raise ApiError(ErrorCode.INCONSISTENT_TOPIC_ID)
        return partition

    def _read(
        self,
        partition: Partition,
        wanted: PartitionQuery,
        query: FetchQuery,
        max_size: int,
        one_anyway: bool,
    ) -> FetchData:
        if self._open_files.is_over:
            self._open_files.give_back()
        if partition.replication is not None:
            return partition.replication.read(wanted, query, max_size, one_anyway)
        partition.check_leader_epoch(wanted.leader_epoch)
        try:
            return partition.log.reader.read(
                wanted.offset, max_size, query.isolation, min_one_message=one_anyway
            )
        except StorageError as error:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR) from error
        except CorruptionError as error:
            logger.error("cannot read %s-%d: %s", partition.topic, partition.index, error)
            raise ApiError(ErrorCode.CORRUPT_MESSAGE) from error

    # Waiting

    def fetch_or_wait(self, query: FetchQuery, deadline_ms: float) -> FetchResult | LongPoll:
        """Returns the result if it suffices, otherwise a wait that `take_answered` ends."""
        found: list[Partition] = []
        result = self._fetch(query, found)
        if result.answers(query):
            return result
        take_back(result, found)
        waiting: LongPoll = WaitingFetch(
            query, found, deadline_ms, reads_ahead=query.is_of_follower
        )
        self.waiting.add(waiting)
        return waiting

    def fetch_many_or_wait(self, query: FetchQuery, deadline_ms: float) -> FetchResult | LongPoll:
        """As `fetch_or_wait`, for so many partitions that they are read in turns.

        `take_answered` returns the fetch without a result, and the caller must read again.
        """
        found: list[Partition] = []
        waiting: LongPoll = LongFetch(query, found, deadline_ms, reads_ahead=query.is_of_follower)
        self.waiting.hold(waiting)
        try:
            result = self._fetch(query, found, waiting)
        except BaseException:
            self.waiting.end(waiting)
            raise
        if result.answers(query):
            self.waiting.end(waiting)
            return result
        take_back(result, found)
        self.waiting.release(waiting)
        return waiting

    def cancel(self, waiting: Waiting[Any]) -> None:
        """Cancels a wait. A member that was joining a group stays in the group."""
        if isinstance(waiting, WaitingFetch):
            self.waiting.end(waiting)

    @property
    def has_answers(self) -> bool:
        return self.waiting.has_woken

    def take_answered(
        self, monotonic_ms: float, is_spent: Callable[[], bool]
    ) -> list[Waiting[Any]]:
        """Returns the fetches that have found enough or have waited long enough; when the time of
        the round `is_spent` the others are left to the next call.
        """
        answered: list[Waiting[Any]] = []
        for waiting in self.waiting.take_woken():
            if isinstance(waiting, LongFetch):
                self.waiting.end(waiting)
                answered.append(waiting)
                continue
            found: list[Partition] = []
            result = self._fetch(waiting.query, found)
            if result.answers(waiting.query):
                waiting.result = result
                self.waiting.end(waiting)
                answered.append(waiting)
            else:
                take_back(result, found)
            if is_spent():
                return answered
        for waiting in self.waiting.advance(monotonic_ms):
            if not isinstance(waiting, LongFetch):
                waiting.result = self.fetch(waiting.query)
            self.waiting.end(waiting)
            answered.append(waiting)
            if is_spent():
                break
        return answered
