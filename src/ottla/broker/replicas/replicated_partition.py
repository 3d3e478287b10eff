"""One partition of a broker in a cluster, as appends and fetches ask it.

Kafka's counterpart: `Partition`.
"""

import logging
from collections.abc import Hashable
from typing import TYPE_CHECKING, Final

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError, CorruptionError, StorageError
from ottla.base.files import FileSlice
from ottla.base.partitions import TopicPartition
from ottla.broker.quotas.replication_quota import is_throttled
from ottla.broker.replicas.hosted_logs import HostedLog
from ottla.broker.replication.fetches import Fetch, Fetched
from ottla.broker.replication.replica_selector import closest_replica
from ottla.broker.waiting.fetch_queries import FetchQuery, NoRecordsError, PartitionQuery
from ottla.broker.waiting.rooms import DelayedOperation
from ottla.config.replication import RACK_AWARE
from ottla.record.batch import batch_at, whole_size
from ottla.storage.log.offsets import Isolation
from ottla.storage.log.reader import FetchData

if TYPE_CHECKING:
    from ottla.broker.replicas.replicas import Replicas

logger = logging.getLogger(__name__)

ACKS_ALL: Final = -1

RECENT_COUNT: Final = 32
"""How many offsets are remembered at which consumers were given records."""

CHECK_INTERVAL_MS: Final = 1000.0
"""Checksums are checked for consumers at most once in this time, which costs a millisecond."""


class ReplicatedPartition:
    """The `replication` of a partition."""

    __slots__ = (
        "_given",
        "_is_behind",
        "_next_check_ms",
        "_recent",
        "_replicas",
        "hosted",
        "partition",
        "place",
    )

    def __init__(self, replicas: "Replicas", hosted: HostedLog) -> None:
        self._replicas = replicas
        self._is_behind = True
        self._given: dict[int, int] = {}
        """The offset at which each follower was last given records."""
        self._recent: dict[int, None] = {}
        """The offsets at which consumers were given records last."""
        self._next_check_ms = 0.0
        self.hosted = hosted
        self.partition = hosted.partition
        self.place = TopicPartition(self.partition.topic, self.partition.index)

    # Appending as leader

    def check_append(self, acks: int) -> None:
        manager = self._replicas.manager
        error = manager.error_before_append(self.place, waits_for_all=acks == ACKS_ALL)
        if error is not ErrorCode.NONE:
            is_offline = self.partition.is_offline
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR if is_offline else error)

    def written_out(self) -> None:
        self.hosted.written_out()
        self._replicas.appended(self.place)

    def write_out(self) -> None:
        """Writes pending appends before the log is read; raises `StorageError`."""
        self.partition.log.writer.write_out()
        self.hosted.written_out()

    def await_commit(self, pending: DelayedOperation, required_offset: int) -> Hashable:
        return self._replicas.await_commit(self.place, pending, required_offset)

    @property
    def low_watermark(self) -> int:
        return self._replicas.manager.low_watermark(self.place)

    def await_deletion(self, pending: DelayedOperation, required_offset: int) -> Hashable:
        return self._replicas.await_deletion(self.place, pending, required_offset)

    # Reading

    def check_leader(self, known_epoch: int) -> None:
        error = self._replicas.manager.error_of_leader(self.place, known_epoch)
        if error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            error = ErrorCode.NOT_LEADER_OR_FOLLOWER  # no order has named the partition yet
        if error is not ErrorCode.NONE:
            raise ApiError(error)

    def check_end(self, end: int) -> None:
        leading = self._replicas.manager.leading(self.place)
        if leading is not None and leading.epoch_start > end:
            raise ApiError(ErrorCode.OFFSET_NOT_AVAILABLE)

    def read(
        self, wanted: PartitionQuery, query: FetchQuery, max_size: int, one_anyway: bool
    ) -> FetchData:
        fetcher = query.fetcher
        if fetcher is not None and fetcher.replica_id >= 0:
            return self._read_as_follower(wanted, query, max_size, one_anyway)
        if fetcher is None:
            self.check_leader(wanted.leader_epoch)
        elif not self._replicas.manager.may_serve(self.place):
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        else:
            self.partition.check_leader_epoch(wanted.leader_epoch)
            if fetcher.rack:
                self._check_rack(wanted, fetcher.rack)
        data = self._read(wanted, query.isolation, max_size, one_anyway)
        if data.records is not None:
            recent = self._recent
            if wanted.offset in recent:
                self._check_for_consumer(data.records)
            else:
                recent[wanted.offset] = None
                if len(recent) > RECENT_COUNT:
                    del recent[next(iter(recent))]
        return data

    def _check_for_consumer(self, records: FileSlice) -> None:
        """A consumer asks again for what has a wrong checksum; but many may read the same records.
        Of damage that no other replica can help with it hears from the batch itself.
        """
        if self._replicas.now_ms < self._next_check_ms:
            return
        self._next_check_ms = self._replicas.now_ms + CHECK_INTERVAL_MS
        try:
            self._check(records)
        except ApiError as error:
            if error.code is ErrorCode.KAFKA_STORAGE_ERROR:
                raise

    def _check_rack(self, wanted: PartitionQuery, rack: str) -> None:
        """Raises `NoRecordsError` if the consumer should read from a replica in its rack."""
        replicas = self._replicas
        leading = replicas.manager.leading(self.place)
        if leading is None or replicas.config().replica_selector_class != RACK_AWARE:
            return
        closest = closest_replica(leading, rack, wanted.offset, replicas.metadata.brokers)
        if closest is not None:
            log = self.partition.log
            raise NoRecordsError(
                FetchData(None, log.high_watermark, log.last_stable_offset, log.log_start_offset),
                preferred_replica=closest,
            )

    def _read_as_follower(
        self, wanted: PartitionQuery, query: FetchQuery, max_size: int, one_anyway: bool
    ) -> FetchData:
        fetcher = query.fetcher
        assert fetcher is not None
        if self.partition.is_dirty:
            self._write_out_or_refuse()
        fetch = Fetch(
            partition=self.place,
            follower=fetcher.replica_id,
            leader_epoch=wanted.leader_epoch,
            fetch_offset=wanted.offset,
            last_fetched_epoch=wanted.last_fetched_epoch,
            log_start_offset=wanted.replica_log_start,
            broker_epoch=fetcher.broker_epoch,
        )
        log = self.partition.log
        if log.health.failure is None and self._replicas.fetched_again(fetch):
            offsets = log.offsets
            end, stable = offsets.high_watermark, offsets.last_stable_offset
            return FetchData(None, end, stable, offsets.log_start_offset)
        answer = self._replicas.fetched(fetch)
        if answer.error is not ErrorCode.NONE:
            raise ApiError(answer.error)
        if answer.diverging is not None:
            raise NoRecordsError(self._nothing(answer), diverging=answer.diverging)
        counts = self._is_throttled_leader
        if counts and self._replicas.leads_too_fast(self.place, fetcher.replica_id):
            return self._nothing(answer)
        data = self._read(wanted, Isolation.LOG_END, max_size, one_anyway)
        # One that names its own hears of what this fetch has committed, too.
        if not query.awaits_commits:
            data.high_watermark = answer.high_watermark
        if data.records is not None:
            if self._given.get(fetcher.replica_id) == wanted.offset:
                self._check(data.records)
            self._given[fetcher.replica_id] = wanted.offset
        if counts and data.records is not None:
            self._replicas.leader_quota.record(data.records.size, self._replicas.now_ms)
        return data

    def _check(self, records: FileSlice) -> None:
        """Raises `ApiError` if a checksum is wrong: a follower asks again for what it could not
        append, or has not received. What a log has written is sent unread otherwise.
        """
        try:
            self.partition.log.reader.check(records)
        except StorageError as error:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR) from error
        except CorruptionError as error:
            raise self.damaged(error, "read") from error

    @property
    def _is_throttled_leader(self) -> bool:
        throttled = self.partition.log.config.leader_replication_throttled_replicas
        return is_throttled(throttled, self.partition.index, self._replicas.options.broker_id)

    def _nothing(self, answer: Fetched) -> FetchData:
        stable = self.partition.log.last_stable_offset
        return FetchData(None, answer.high_watermark, stable, answer.log_start_offset)

    def _read(
        self, wanted: PartitionQuery, isolation: Isolation, max_size: int, one_anyway: bool
    ) -> FetchData:
        try:
            return self.partition.log.reader.read(
                wanted.offset, max_size, isolation, min_one_message=one_anyway
            )
        except StorageError as error:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR) from error
        except CorruptionError as error:
            raise self.damaged(error, "read") from error

    def damaged(self, damage: CorruptionError, verb: str) -> ApiError:
        return self._replicas.damaged(self.place, damage, verb)

    def _write_out_or_refuse(self) -> None:
        try:
            self.write_out()
        except StorageError as error:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR) from error

    # Following

    @property
    def is_throttled_follower(self) -> bool:
        throttled = self.partition.log.config.follower_replication_throttled_replicas
        return is_throttled(throttled, self.partition.index, self._replicas.options.broker_id)

    @property
    def is_throttled_and_behind(self) -> bool:
        return self._is_behind and self.is_throttled_follower

    def append(self, fetched: Fetched, now_ms: int) -> int:
        """Appends the complete batches of a leader's response, and returns their size.

        Raises `ApiError` and `StorageError`.

        If the leader's log begins within a batch, after DeleteRecords, the log here begins with the
        whole batch (Kafka: `UnexpectedAppendOffsetException`).
        """
        records, log = fetched.records, self.partition.log
        size = whole_size(records) if records else 0
        if not size:
            self._is_behind = fetched.high_watermark > log.log_end_offset
            return 0
        whole = records if size == len(records) else memoryview(records)[:size]
        first = batch_at(whole, 0)
        is_empty = log.log_start_offset == log.log_end_offset
        if is_empty and first.base_offset < log.log_end_offset <= first.last_offset:
            log.maintenance.truncate_fully_and_start_at(first.base_offset, now_ms=now_ms)
            self.truncated()
        log.writer.append_as_follower(whole, now_ms=now_ms)
        self.write_out()
        self._is_behind = fetched.high_watermark > log.log_end_offset
        return size

    def truncated(self) -> None:
        self.hosted.written_out()
        self._replicas.manager.truncated(self.place)
