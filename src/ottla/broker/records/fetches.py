"""Fetches of clients and followers, at once or once there are records.

Kafka's counterparts: `ReplicaManager.fetchMessages` and its purgatory of `DelayedFetch`.
"""

import logging
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError, CorruptionError, StorageError
from ottla.base.files import base_name, parent_directory
from ottla.base.ids import Uuid
from ottla.base.open_files import OpenFiles
from ottla.base.turns import many_in_turns
from ottla.broker.configs.settings import BrokerSettings
from ottla.broker.topics.partition import Partition, take_back
from ottla.broker.topics.topics import Topics
from ottla.broker.waiting.fetch_queries import (
    TELL_MS,
    FetchQuery,
    FetchResult,
    OffsetMovedError,
    PartitionQuery,
    TierFetch,
)
from ottla.broker.waiting.rooms import LongFetch, Waiting, WaitingFetch, WaitingRoom
from ottla.storage.files.filenames import parse_directory_name
from ottla.storage.log.offsets import Isolation, OffsetInTierError
from ottla.storage.log.reader import FetchData

if TYPE_CHECKING:
    from ottla.broker.records.tier_reads import TierRead, TierReads, TierSearch, TierWork

logger = logging.getLogger(__name__)

LongPoll = WaitingFetch[FetchQuery, FetchResult]

NO_TIER: Final = (
    "These records are in a remote tier, and this broker has none; see "
    "remote.log.storage.system.enable."
)

MOST_KEPT: Final = 10_000
"""Partitions whose results a waiting fetch keeps: to free more at once takes a millisecond."""

NO_QUERY: Final = FetchQuery([], 0)
"""Of what waits for the remote tier, and is no fetch."""


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
        self.tier: TierReads | None = None
        """`None` on a broker without a remote tier."""

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
        has_error = is_reading = has_news = False
        for wanted in many_in_turns(query.partitions):
            one_anyway = size == 0 and not query.is_hard_limit and not is_reading
            try:
                partition = self._partition_of(query, wanted)
                found.append(partition)
                if watching is not None:
                    # Before the read: an append while other requests run must wake this fetch.
                    self.waiting.watch(watching, partition)
                max_size = min(wanted.max_size, left)
                data = self._read(partition, wanted, query, max_size, one_anyway)
            except OffsetInTierError:
                answer = self._read_tier(partition, wanted, query, max_size, one_anyway)
                if answer is None:
                    results.append(_nothing(partition))
                    is_reading = True
                    left = max(0, left - max_size)
                    continue
                if isinstance(answer, ApiError):
                    results.append(answer)
                    has_error = True
                    continue
                data = answer
            except ApiError as error:
                refusal = self.refusal(error, wanted.topic, wanted.index, wanted.topic_id)
                results.append(refusal)
                has_error = True
                continue
            results.append(data)
            has_news |= query.awaits_commits and data.high_watermark > wanted.replica_high_watermark
            if data.records is not None:
                read = data.records.size
                size += read
                left = max(0, left - read)
                partition.bytes_out += read
        return FetchResult(results, size, has_error, is_reading, has_news)

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
            raise partition.damaged(error, "read") from error

    def could_not_send(self, path: str, cause: OSError | None) -> None:
        """A log file that an answer refers to is shorter than its log has written it, or cannot be
        read because of `cause`.
        """
        folder = parent_directory(path)
        place = parse_directory_name(base_name(folder))
        topic = None if place is None else self._topics.find(place.topic)
        if place is None or topic is None:
            return
        partition = topic.partitions.get(place.partition)
        if partition is None or partition.log.directory != folder:
            return  # deleted or moved meanwhile
        if cause is not None:
            partition.directory.health.fail(cause)
            return
        damage = partition.log.reader.shortened(path)
        if damage is not None:
            partition.damaged(damage, "read")

    # The remote tier

    def _read_tier(
        self,
        partition: Partition,
        wanted: PartitionQuery,
        query: FetchQuery,
        max_size: int,
        one_anyway: bool,
    ) -> FetchData | ApiError | None:
        """What the tier has at an offset; `None` while it is read."""
        tier = self.tier
        if query.is_of_follower:
            return OffsetMovedError(_nothing(partition))
        if tier is None:
            # Not OFFSET_OUT_OF_RANGE, after which a consumer would pass over the records or ask for
            # ever, and not KAFKA_STORAGE_ERROR, after which it asks again without a word.
            return ApiError(ErrorCode.CORRUPT_MESSAGE, NO_TIER)
        fetch, key = query.tier, (partition, wanted.offset)
        read = None if fetch is None else fetch.reads.get(key)
        if read is None:
            if (max_size <= 0 and not one_anyway) or tier.is_throttled(query.begun_ms):
                return _nothing(partition)
            if fetch is None:
                fetch = query.tier = TierFetch(query.begun_ms + tier.max_wait_ms)
            topic_id = self._topics.get(partition.topic).topic_id
            if not tier.is_ready(partition, topic_id):
                fetch.awaits_list = True
                return None
            read = tier.read_of(partition, topic_id, wanted.offset, query.isolation)
            read.skips_markers, read.max_size = query.skips_markers, max_size
            read = fetch.reads[key] = tier.begin(read, query.begun_ms)
        if not read.is_done:
            return None
        tier.claim(read, query.begun_ms)
        if not read.is_valid:
            return _nothing(partition)
        try:
            found: FetchData = read.data(max_size, one_anyway=one_anyway)
        except OffsetInTierError:  # It has become local, and gone to the tier again.
            return _nothing(partition)
        except ApiError as error:
            return error
        return found

    def tier_read(self, partition: Partition, offset: int) -> "TierRead | None":
        """A read that the caller performs, of what is committed; `None` without a tier."""
        if self.tier is None:
            return None
        topic_id = self._topics.get(partition.topic).topic_id
        return self.tier.read_of(partition, topic_id, offset, Isolation.LAST_STABLE)

    def tier_search(self, partition: Partition, timestamp_ms: int) -> "TierSearch | None":
        """A search by time that the caller performs; `None` if the log is local from its start."""
        offsets = partition.log.offsets
        if self.tier is None or offsets.log_start_offset == offsets.local_start_offset:
            return None
        topic_id = self._topics.get(partition.topic).topic_id
        return self.tier.search_of(partition, topic_id, timestamp_ms)

    def search_tier(
        self, partition: Partition, timestamp_ms: int, leader_epoch: int
    ) -> "TierSearch | None":
        """As `tier_search`, but has it carried out.

        Raises `ApiError` unless this broker leads in the client's epoch.
        """
        partition.check_leader(leader_epoch)
        search = self.tier_search(partition, timestamp_ms)
        if search is not None and self.tier is not None:
            self.tier.begin_search(search)
        return search

    def await_tier(self, searches: "Sequence[TierWork]", deadline_ms: float) -> LongPoll:
        """Waits until any of these is done; the caller looks again."""
        waiting: LongPoll = LongFetch(NO_QUERY, searches, deadline_ms)
        self.waiting.add(waiting)
        return waiting

    # Waiting

    def fetch_or_wait(self, query: FetchQuery, deadline_ms: float) -> FetchResult | LongPoll:
        """Returns the result if it suffices, or the query began at its deadline; otherwise a wait
        that `take_answered` ends.
        """
        found: list[Partition] = []
        result = self._fetch(query, found)
        if result.answers(query) or _is_late(query, result, deadline_ms):
            return result
        self._take_back(query, result, found)
        keys: Sequence[Hashable] = found
        deadline_ms = _told_by(result, query, deadline_ms)
        if query.tier is not None:
            keys, deadline_ms = query.tier.awaited(), query.tier.deadline_ms
        waiting = _waiting(WaitingFetch, query, keys, deadline_ms)
        self.waiting.add(waiting)
        return waiting

    def fetch_many_or_wait(self, query: FetchQuery, deadline_ms: float) -> FetchResult | LongPoll:
        """As `fetch_or_wait`, for so many partitions that they are read in turns.

        `take_answered` returns the fetch without a result, and the caller must read again; or, when
        nothing has changed until its deadline, with what was read here.
        """
        found: list[Partition] = []
        keys: list[Hashable] = []
        waiting = _waiting(LongFetch, query, keys, deadline_ms)
        self.waiting.hold(waiting)
        try:
            result = self._fetch(query, found, waiting)
        except BaseException:
            self.waiting.end(waiting)
            raise
        keys += found
        if result.answers(query) or _is_late(query, result, deadline_ms):
            self.waiting.end(waiting)
            return result
        self._take_back(query, result, found)
        waiting.deadline_ms = min(waiting.deadline_ms, _told_by(result, query, deadline_ms))
        if query.tier is not None:
            self._await_reads(waiting, query.tier, keys)
        elif not result.size and len(keys) <= MOST_KEPT:
            waiting.result = result
        self.waiting.release(waiting)
        return waiting

    def _await_reads(self, waiting: LongPoll, fetch: TierFetch, keys: list[Hashable]) -> None:
        waiting.deadline_ms = fetch.deadline_ms
        for one in fetch.awaited():
            keys.append(one)
            self.waiting.watch(waiting, one)
        # While other partitions were read, in turns, nobody was woken.
        waiting.is_woken |= any(read.is_done for read in fetch.reads.values())

    def _take_back(
        self, query: FetchQuery, result: FetchResult, found: Sequence[Partition]
    ) -> None:
        """Takes an unsent result out of the partitions' counts."""
        if not result.is_reading:
            take_back(result, found)
            return
        # Beside what is read from the tier there may be errors.
        for wanted, data in zip(query.partitions, result.partitions, strict=True):
            if not isinstance(data, ApiError) and data.records is not None:
                assert wanted.topic is not None
                partition = self._topics.get(wanted.topic).partition(wanted.index)
                partition.bytes_out -= data.records.size

    def cancel(self, waiting: Waiting[Any]) -> None:
        """Cancels a wait. A member that was joining a group stays in the group."""
        if isinstance(waiting, WaitingFetch):
            self.waiting.end(waiting)

    @property
    def has_answers(self) -> bool:
        return self.waiting.has_woken or (self.tier is not None and self.tier.has_news)

    def take_answered(
        self, monotonic_ms: float, is_spent: Callable[[], bool]
    ) -> list[Waiting[Any]]:
        """Returns the fetches that have found enough or have waited long enough; when the time of
        the round `is_spent` the others are left to the next call.
        """
        answered: list[Waiting[Any]] = []
        if self.tier is not None:
            for one in self.tier.take_news():
                self.waiting.wake(one)
        for waiting in self.waiting.take_woken():
            if isinstance(waiting, LongFetch):
                waiting.result = None
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
                self._take_back(waiting.query, result, found)
                if waiting.query.tier is not None:
                    self.waiting.watch_also(waiting, waiting.query.tier.awaited())
            if is_spent():
                return answered
        for waiting in self.waiting.advance(monotonic_ms):
            if not isinstance(waiting, LongFetch):
                waiting.result = self.fetch(waiting.query)
            elif waiting.has_news:
                waiting.result = None
            self.waiting.end(waiting)
            answered.append(waiting)
            if is_spent():
                break
        return answered


def _nothing(partition: Partition) -> FetchData:
    log = partition.log
    return FetchData(None, log.high_watermark, log.last_stable_offset, log.log_start_offset)


def _told_by(result: FetchResult, query: FetchQuery, deadline_ms: float) -> float:
    return min(deadline_ms, query.begun_ms + TELL_MS) if result.has_news else deadline_ms


def _waiting(
    kind: "type[LongPoll]", query: FetchQuery, keys: Sequence[Hashable], deadline_ms: float
) -> LongPoll:
    return kind(
        query,
        keys,
        deadline_ms,
        reads_ahead=query.is_of_follower,
        awaits_commits=query.awaits_commits,
    )


def _is_late(query: FetchQuery, result: FetchResult, deadline_ms: float) -> bool:
    """Whether a client does not want to wait; but it does for the tier, as in Kafka."""
    return deadline_ms <= query.begun_ms and not result.is_reading
