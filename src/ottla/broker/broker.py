"""The broker without a wire protocol: topics over log directories, appends, fetches, producer ids.

Everything is synchronous and for one thread at a time; a caller with several threads holds a lock.
The appends of one round are pending until `write_out`, which makes them readable and wakes the
fetches that wait for them. Errors are `ApiError` with the code for the client.

Kafka's counterparts: `ReplicaManager`, and the parts of the controller that a single broker needs.
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Protocol

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError, CorruptionError, StorageError
from ottla.base.files import Buffer
from ottla.base.ids import Uuid
from ottla.base.open_files import OpenFiles
from ottla.base.partitions import TopicPartition
from ottla.base.timestamps import Timestamps
from ottla.base.turns import Budget, freed_in_turns, in_turns, many_in_turns, parts_of
from ottla.broker.admin import Admin
from ottla.broker.background import Background, Preparation
from ottla.broker.events import TopicDeleted
from ottla.broker.fetching import FetchQuery, FetchResult, PartitionQuery
from ottla.broker.parts import BrokerParts
from ottla.broker.quotas.client_quotas import ClientQuotas
from ottla.broker.quotas.throttled_clients import ThrottledClients
from ottla.broker.topics.auto_creation import AutoCreation
from ottla.broker.topics.partition import Partition, take_back
from ottla.broker.topics.topic_rules import INTERNAL_TOPICS, TRANSACTION_STATE
from ottla.broker.topics.topics import NewTopic, Topic, created, partition_count_of
from ottla.broker.waiting import LongFetch, Waiting, WaitingFetch
from ottla.config.broker import BrokerConfig
from ottla.coordinator.catalog import TopicCatalog
from ottla.metadata.quotas import Quotas
from ottla.record.batch import RecordBatch
from ottla.storage.directory.log_directory import LogDirectory
from ottla.storage.log.append import AppendInfo, LongPreparationError, PreparedRecords
from ottla.storage.log.maintenance import FlushPlan
from ottla.storage.log.producer_state import AppendOrigin
from ottla.storage.log.reader import (
    EARLIEST_LOCAL_TIMESTAMP,
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    FetchData,
    FoundOffset,
    Isolation,
)

if TYPE_CHECKING:
    from ottla.broker.by_itself import NoMembership, OnlyReplicas
    from ottla.broker.control.controller import Controller
    from ottla.broker.coordinators import Coordinators
    from ottla.broker.fetch_sessions import FetchSessions
    from ottla.broker.groups.coordinator import GroupCoordinator
    from ottla.broker.membership import Membership
    from ottla.broker.replicas import Replicas
    from ottla.broker.transactions.coordinator import TransactionCoordinator
    from ottla.metadata.cluster_view import ClusterView

logger = logging.getLogger(__name__)

ACKS_ALL: Final = -1

FLUSHES_PER_STEP: Final = 1024
"""The number of logs that are asked at a time whether they are to be flushed: 1 ms."""

LongPoll = WaitingFetch[FetchQuery, FetchResult]


class Catalog(TopicCatalog, Protocol):
    """The existing topics, as handlers of groups and transactions use them."""

    def name_by_id(self, topic_id: bytes) -> str | None: ...

    def has_partition(self, partition: TopicPartition) -> bool: ...


class Broker:
    """Created by `assemble`."""

    def __init__(self, parts: BrokerParts, quotas: Quotas, open_files: OpenFiles) -> None:
        settings, options = parts.settings, parts.options
        self.settings = settings
        self.config = settings.config
        self.new_id = options.new_id
        self.on_event = options.on_event
        self.directories = parts.directories
        self.node_id = parts.node_id
        self.cluster_id = parts.cluster_id
        self.open_files = open_files
        self._run_directories = options.run_directories
        self._store = parts.store
        self.topics = parts.store.topics
        self._producer_ids = parts.producer_ids
        self._allocate_producer_id = parts.allocate_producer_id
        self.metadata = parts.metadata
        self.unconfirmed = parts.unconfirmed
        self.log_access = parts.log_access
        self.retention = parts.retention
        self.cleaner = parts.cleaner
        self.moves = parts.moves
        self.security = parts.security
        self.authorizer = parts.security.authorizer
        self.replicas: Replicas | OnlyReplicas = parts.replicas
        self._segment_removals = parts.segment_removals
        self._jobs = parts.jobs
        self._timers = parts.timers
        self.budget = Budget()
        self._dirty: list[Partition] = []
        self._waiting = parts.waiting
        self._background: Background | None = None
        self.membership: Membership | NoMembership = options.membership
        self._config_check: Callable[[BrokerConfig], None] | None = None
        self.throttled_clients = ThrottledClients(parts.timers.answers)
        self.quotas = ClientQuotas(
            self.config.quota_window_num, self.config.quota_window_size_seconds * 1000
        )
        self.quotas.change(quotas)
        self._fetch_sessions: FetchSessions | None = None
        self._random_below = options.random_below
        self.auto_creation = AutoCreation(lambda: self.config)
        self.admin = Admin(self._store, parts.cluster, settings, self)
        self._controller: Controller | None = None
        self._view: ClusterView | None = None
        self._cluster = parts.replicas.topics
        self.catalog: Catalog = self.topics if self._cluster is None else self._cluster
        """All topics; in a cluster also those without a replica on this broker."""
        self._groups: GroupCoordinator | None = None
        self._transactions: TransactionCoordinator | None = None
        parts.replicas.when_leading(self._coordinators)

    def _coordinators(self) -> "Coordinators":
        from ottla.broker.coordinators import Coordinators

        return Coordinators(self.groups, self.transactions)

    @property
    def view(self) -> "ClusterView":
        """Created like `groups`."""
        if self._view is None:
            from ottla.broker.control.choosing import view_for

            self._view = view_for(self)
        return self._view

    @property
    def controller(self) -> "Controller":
        """Created like `groups`."""
        if self._controller is None:
            from ottla.broker.control.choosing import controller_for

            self._controller = controller_for(self)
        return self._controller

    @property
    def fetch_sessions(self) -> "FetchSessions":
        """Created like `groups`."""
        if self._fetch_sessions is None:
            from ottla.broker.fetch_sessions import MAX_ID, FetchSessions

            self._fetch_sessions = FetchSessions(
                self.config.max_incremental_fetch_session_cache_slots,
                new_id=lambda: 1 + self._random_below(MAX_ID),
                max_partition_count=self.config.max_incremental_fetch_session_cache_partitions,
            )
        return self._fetch_sessions

    @property
    def groups(self) -> "GroupCoordinator":
        """Created, and its modules imported, on first use: embedded logs and commands rarely need
        groups.
        """
        if self._groups is None:
            from ottla.broker.groups.coordinator import GroupCoordinator

            self._groups = GroupCoordinator(
                self,
                self.config,
                self.new_id,
                self.settings.groups.of,
                self._timers.answers,
                self._cluster,
            )
        return self._groups

    @property
    def transactions(self) -> "TransactionCoordinator":
        """Created like `groups`."""
        if self._transactions is None:
            from ottla.broker.transactions.coordinator import TransactionCoordinator

            self._transactions = TransactionCoordinator(
                self,
                self.groups,
                self.config,
                must_verify=lambda: self.config.transaction_partition_verification_enable,
                timers=self._timers.answers,
                cluster=self._cluster,
            )
        return self._transactions

    def resume_transactions(self, at: Timestamps) -> None:
        """Has the next `write_out` finish transactions that a crash left prepared; raises
        `UserError`.
        """
        if self.topics.find(TRANSACTION_STATE) is not None:
            self.transactions.load(at)

    def reconfigure(self, config: BrokerConfig) -> None:
        """Applies settings that a client has changed."""
        self.config = config

    def check_config(self, config: BrokerConfig) -> None:
        """Raises `SettingError` for settings that the server could not apply."""
        if self._config_check is not None:
            self._config_check(config)

    def check_configs_with(self, check: Callable[[BrokerConfig], None] | None) -> None:
        """Sets a check of keys and certificates that runs before settings are applied."""
        self._config_check = check

    def run_long_work_in(self, background: Background | None) -> None:
        """Sets the thread that prepares large batches; without one the broker does it itself."""
        self._background = background

    def adopt(self, settings: Mapping[str, Mapping[str, str]]) -> None:
        """Stores the settings that a user has confirmed for topics with unknown settings, durably.

        Raises `ApiError`.
        """
        self._store.confirm(settings)

    def adopt_producer_ids(self, next_producer_id: int) -> None:
        """Reserves all ids below `next_producer_id`, so that the next start skips them.

        Raises `StorageError`.
        """
        self._producer_ids.reserve_below(next_producer_id)

    def close(self) -> None:
        """Flushes and closes everything; the next start needs no recovery."""
        try:
            self.write_out()
        except StorageError:
            logger.error("closing with a directory offline; the next start recovers it")
        with suppress(StorageError):  # logged when the directory went offline
            self.metadata.close()
        self._segment_removals.close()
        self._run_directories([directory.close for directory in self.directories])
        self._store.removals.close()

    # Topics

    def create_topic(self, new: NewTopic, *, validate_only: bool = False) -> Topic:
        """Creates a topic durably; if it raises `ApiError`, nothing is left of it."""
        topic = self._store.create(new, self._partition_count_of(new), validate_only=validate_only)
        if not validate_only:
            self.on_event(created(topic))
        return topic

    def create_topics(self, wanted: Sequence[NewTopic]) -> list[Topic | ApiError]:
        """Creates topics durably; returns the result of each."""
        counts: list[int | ApiError] = freed_in_turns([])
        for new in in_turns(wanted):
            try:
                counts.append(self._partition_count_of(new))
            except ApiError as error:
                counts.append(error.without_traceback())
        counted = in_turns(zip(wanted, counts, strict=True))
        made = iter(
            self._store.create_all([(new, one) for new, one in counted if isinstance(one, int)])
        )
        results = [one if isinstance(one, ApiError) else next(made) for one in in_turns(counts)]
        for result in in_turns(results):
            if isinstance(result, Topic):
                self.on_event(created(result))
        return results

    def _partition_count_of(self, new: NewTopic) -> int:
        return partition_count_of(new, default=self.config.num_partitions, node_id=self.node_id)

    def delete_topic(self, topic: Topic) -> None:
        """Deletes a topic; its files are removed after `file.delete.delay.ms`.

        Raises `ApiError`.
        """
        self.check_deletion(topic.name)
        self.delete_topics([topic])

    def check_deletion(self, name: str) -> None:
        """Raises `ApiError` if a topic of this name must not be deleted."""
        if not self.config.delete_topic_enable:
            raise ApiError(ErrorCode.TOPIC_DELETION_DISABLED)
        if name in INTERNAL_TOPICS:
            raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"'{name}' is internal.")

    def delete_topics(self, topics: Sequence[Topic]) -> None:
        """Deletes topics that `check_deletion` accepts; raises `ApiError`."""
        self.write_out()
        partitions = [one for topic in topics for one in topic.partitions.values()]
        self._store.delete(topics)
        for topic in in_turns(topics):
            self.on_event(TopicDeleted(topic=topic.name, partition_count=topic.partition_count))
        for partition in partitions:
            self._waiting.wake(partition)
        for topic in topics:
            self.groups.topic_deleted(topic.name)

    # Appending

    def append(
        self,
        partition: Partition,
        records: Buffer | RecordBatch | PreparedRecords,
        *,
        now_ms: int,
        acks: int = ACKS_ALL,
        origin: AppendOrigin = AppendOrigin.CLIENT,
    ) -> AppendInfo:
        """Appends batches.

        `records` may be modified, and the caller must leave them unchanged until `write_out`.
        Raises `ApiError`; raises `LongPreparationError` if a thread should prepare them first
        (`prepare`).
        """
        if self.open_files.is_over:
            self.open_files.give_back()
        log = partition.log
        if partition.replication is not None:
            partition.replication.check_append(acks)
        elif acks == ACKS_ALL and log.config.min_insync_replicas > 1:
            raise ApiError(ErrorCode.NOT_ENOUGH_REPLICAS)
        try:
            info = log.writer.append_as_leader(
                records,
                leader_epoch=partition.leader_epoch,
                now_ms=now_ms,
                origin=origin,
                may_defer=self._background is not None,
            )
        except StorageError as error:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR) from error
        if info.size:
            partition.messages_in += info.last_offset - info.first_offset + 1
            partition.bytes_in += info.size
        if not partition.is_dirty:
            partition.is_dirty = True
            self._dirty.append(partition)
        return info

    def prepare(self, work: Sequence[LongPreparationError]) -> Preparation:
        """Has another thread prepare records, in the given order; `take_answered` returns the
        result.
        """
        assert self._background is not None
        preparation = Preparation(work)
        self._background.submit(preparation)
        return preparation

    @property
    def has_pending(self) -> bool:
        """Whether `write_out` has something to do."""
        return bool(self._dirty) or self._has_decided

    def write_out(self) -> None:
        """Writes all pending appends, with one call per partition, which makes them readable. Then
        it carries out decisions about transactions. Raises `StorageError` after it has tried all
        partitions.
        """
        if self._dirty:
            self._write_dirty()
        if self._has_decided:
            self.transactions.end_decided(self._write_dirty)

    @property
    def _has_decided(self) -> bool:
        return self._transactions is not None and self._transactions.has_decided

    def _write_dirty(self) -> None:
        dirty, self._dirty = self._dirty, []
        failure: StorageError | None = None
        for partition in dirty:
            partition.is_dirty = False
            try:
                partition.log.writer.write_out()
                if partition.replication is not None:
                    partition.replication.written_out()
            except StorageError as error:
                failure = error
            self._waiting.wake(partition)
        if failure is not None:
            raise failure

    # Fetching

    def fetch(self, query: FetchQuery) -> FetchResult:
        """Reads the available records, in the query's order, within its limits."""
        return self._fetch(query, [])

    def _fetch(
        self, query: FetchQuery, found: list[Partition], watching: LongPoll | None = None
    ) -> FetchResult:
        """As `fetch`; adds existing partitions to `found`, and watches them."""
        results: list[FetchData | ApiError] = []
        left = min(query.max_size, self.config.fetch_max_bytes)
        size = 0
        has_error = False
        for wanted in many_in_turns(query.partitions):
            one_anyway = size == 0 and not query.is_hard_limit
            try:
                partition = self._partition_of(query, wanted)
                found.append(partition)
                if watching is not None:
                    # Before the read: an append while other requests run must wake this fetch.
                    self._waiting.watch(watching, partition)
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
        return self.replicas.elsewhere(error, topic, topic_id, index).without_traceback()

    def _partition_of(self, query: FetchQuery, wanted: PartitionQuery) -> Partition:
        """Finds the topic by its name or, if the query has only its id, by the id.

        Then sets the name in the query. Raises `ApiError`, also for a topic that the client may not
        read, whether or not it exists.
        """
        topic_id, may_read = wanted.topic_id, query.may_read
        if wanted.topic is None:
            topic = None if topic_id is None else self.topics.find_by_id(topic_id)
            if topic is None:
                raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID)
            if may_read is not None and not may_read(topic.name):
                raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            wanted.topic = topic.name
            return topic.partition(wanted.index)
        if may_read is not None and not may_read(wanted.topic):
            raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        topic = self.topics.get(wanted.topic)
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
        if self.open_files.is_over:
            self.open_files.give_back()
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
        self._waiting.add(waiting)
        return waiting

    def fetch_many_or_wait(self, query: FetchQuery, deadline_ms: float) -> FetchResult | LongPoll:
        """As `fetch_or_wait`, for so many partitions that they are read in turns.

        `take_answered` returns the fetch without a result, and the caller must read again.
        """
        found: list[Partition] = []
        waiting: LongPoll = LongFetch(query, found, deadline_ms, reads_ahead=query.is_of_follower)
        self._waiting.hold(waiting)
        try:
            result = self._fetch(query, found, waiting)
        except BaseException:
            self._waiting.end(waiting)
            raise
        if result.answers(query):
            self._waiting.end(waiting)
            return result
        take_back(result, found)
        self._waiting.release(waiting)
        return waiting

    def take_answered(self, monotonic_ms: float) -> list[Waiting[Any]]:
        """Returns the waiting requests that now have a `result`: fetches that found enough or have
        waited long enough, members of groups, prepared records, and finished throttles. Fetches
        for which the budget does not suffice are returned by the next call.
        """
        answered = [] if self._groups is None else self._groups.take_answered()
        if self._background is not None and self._background.has_done:
            answered += self._background.take_done()
        if self.membership.has_done:
            answered += self.membership.take_done()
        if self.throttled_clients:
            answered += self.throttled_clients.take_over(monotonic_ms)
        if self.replicas.has_answers:
            answered += self.replicas.take_answered()
        is_spent = self.budget.is_spent
        for waiting in self._waiting.take_woken():
            if isinstance(waiting, LongFetch):
                self._waiting.end(waiting)
                answered.append(waiting)
                continue
            found: list[Partition] = []
            result = self._fetch(waiting.query, found)
            if result.answers(waiting.query):
                waiting.result = result
                self._waiting.end(waiting)
                answered.append(waiting)
            else:
                take_back(result, found)
            if is_spent():
                return answered
        for waiting in self._waiting.advance(monotonic_ms):
            if not isinstance(waiting, LongFetch):
                waiting.result = self.fetch(waiting.query)
            self._waiting.end(waiting)
            answered.append(waiting)
            if is_spent():
                break
        return answered

    @property
    def waiting_fetch_count(self) -> int:
        return len(self._waiting)

    @property
    def has_answers(self) -> bool:
        """Whether a waiting request may have a result since the last `take_answered`."""
        return (
            self._waiting.has_woken
            or (self._groups is not None and self._groups.has_answers)
            or self.replicas.has_answers
            or (self._background is not None and self._background.has_done)
            or self.membership.has_done
        )

    def cancel(self, waiting: Waiting[Any]) -> None:
        """Cancels a wait. A member that was joining a group stays in the group."""
        if isinstance(waiting, WaitingFetch):
            self._waiting.end(waiting)

    # Offsets by time

    def find_offset(
        self,
        topic: str,
        index: int,
        timestamp_ms: int,
        *,
        isolation: Isolation = Isolation.HIGH_WATERMARK,
        leader_epoch: int = -1,
    ) -> FoundOffset | None:
        """Returns the first offset at or after a time, or the one that a sentinel (-1 to -6) means.

        Returns `None` if no readable record is that late. Kafka:
        `Partition.fetchOffsetForTimestamp`.
        """
        partition = self.topics.online_partition(topic, index)
        partition.check_leader(leader_epoch)
        log = partition.log
        is_stable = isolation is Isolation.LAST_STABLE
        # Even where the abort check has not reached this offset yet: fetches wait for it.
        end = log.last_stable_offset if is_stable else log.reader.bound(isolation)
        if timestamp_ms == LATEST_TIMESTAMP:
            if partition.replication is not None:
                partition.replication.check_end(end)
            return FoundOffset(end, -1, partition.leader_epoch)
        try:
            found = log.reader.find_timestamp(timestamp_ms)
        except StorageError as error:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR) from error
        except CorruptionError as error:
            logger.error("cannot search %s-%d: %s", topic, index, error)
            raise ApiError(ErrorCode.CORRUPT_MESSAGE) from error
        sentinels = (EARLIEST_TIMESTAMP, EARLIEST_LOCAL_TIMESTAMP)
        if timestamp_ms in sentinels or (found is not None and found.offset < end):
            return found
        if partition.replication is not None:
            partition.replication.check_end(end)
        return None

    # Producer ids

    def allocate_producer_id(self) -> int:
        """Returns an id that no producer has had; raises `ApiError`."""
        try:
            return self._allocate_producer_id()
        except StorageError as error:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR) from error

    # Jobs

    @property
    def next_deadline_ms(self) -> float | None:
        """When `take_answered` or `run_due_jobs` has work, on the monotonic clock."""
        deadlines = [self.next_answer_ms, self.next_job_ms]
        return min((one for one in deadlines if one is not None), default=None)

    @property
    def next_answer_ms(self) -> float | None:
        """When `advance` or `take_answered` has work, on the monotonic clock."""
        return self._timers.answers.next_deadline_ms

    @property
    def next_job_ms(self) -> float | None:
        """When a job is due that no client's request waits for, on the monotonic clock."""
        if self.metadata.is_due_for_snapshot:
            return 0.0
        return self._timers.jobs.next_deadline_ms

    def due_flushes(self, monotonic_ms: float) -> list[tuple[LogDirectory, FlushPlan]]:
        """Returns the flushes that are due because of rolled segments and `flush.ms`."""
        return [one for part in self.due_flushes_in_steps(monotonic_ms) for one in part]

    def due_flushes_in_steps(
        self, monotonic_ms: float
    ) -> Iterator[list[tuple[LogDirectory, FlushPlan]]]:
        """Like `due_flushes`, in short steps."""
        is_short = self.open_files.is_short
        for directory in self.directories.online:
            for part in parts_of(list(directory.logs.items()), FLUSHES_PER_STEP):
                plans = [
                    log.maintenance.due_flush(monotonic_ms, is_short_of_files=is_short)
                    for place, log in part
                    if directory.logs.get(place) is log
                ]
                yield [(directory, plan) for plan in plans if plan is not None]
            yield [(directory, plan) for plan in self.moves.due_flushes(directory, monotonic_ms)]

    def advance(self, at: Timestamps) -> None:
        """Ends expired sessions of members, and transactions and produces that have timed out."""
        self.metadata.now_ms = at.now_ms
        self.replicas.advance(at)
        if self._groups is not None:
            self._groups.advance(at)
        if self._transactions is not None:
            self._transactions.advance(at)
            for request in self._transactions.take_marker_requests(at):
                self.membership.send_markers(request)

    def run_due_jobs(self, at: Timestamps) -> None:
        """Does what `advance` does, removes the files of deleted topics and segments, runs due
        jobs, and advances moves of partitions.
        """
        if self.open_files.is_over:
            self.open_files.give_back()
        self.advance(at)
        monotonic_ms = at.monotonic_ms
        if self._store.removals.queue:
            self._store.removals.run(monotonic_ms, self.config.topic_defaults.file_delete_delay_ms)
        self._segment_removals.run(monotonic_ms)
        if self.metadata.is_due_for_snapshot and self.directories.is_complete:
            with suppress(StorageError):  # logged when the directory went offline
                self.metadata.advance_snapshot()
        self._jobs.advance(at)
        self.moves.advance(at)
