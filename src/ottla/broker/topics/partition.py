"""One partition of this broker: its log, its directory, its leader epoch.

Kafka's counterpart: `Partition`, of which a broker without replicas needs little.
"""

import logging
from collections.abc import Hashable, Sequence
from typing import Final, Protocol

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError, CorruptionError, StorageError
from ottla.broker.waiting.fetch_queries import FetchQuery, FetchResult, PartitionQuery
from ottla.broker.waiting.rooms import DelayedOperation
from ottla.storage.directory.log_directory import LogDirectory
from ottla.storage.log.offsets import (
    EARLIEST_LOCAL_TIMESTAMP,
    EARLIEST_PENDING_TIMESTAMP,
    EARLIEST_TIMESTAMP,
    LATEST_TIERED_TIMESTAMP,
    LATEST_TIMESTAMP,
    FoundOffset,
    Isolation,
)
from ottla.storage.log.partition_log import PartitionLog
from ottla.storage.log.reader import FetchData

logger = logging.getLogger(__name__)

KNOWN: Final = (
    EARLIEST_TIMESTAMP,
    EARLIEST_LOCAL_TIMESTAMP,
    LATEST_TIERED_TIMESTAMP,
    EARLIEST_PENDING_TIMESTAMP,
)
"""What does not depend on how far clients may read."""


class Replication(Protocol):
    """The part of a partition that involves other brokers (`broker/replicas/replicas.py`).

    `check_append` and `read` raise `ApiError`.
    """

    def check_append(self, acks: int) -> None:
        """Called before records are appended."""

    def written_out(self) -> None:
        """Called after appends were written; followers may now read them."""

    def await_commit(self, pending: DelayedOperation, required_offset: int) -> Hashable:
        """Has a produce wait until an offset is committed; returns the key of the partition's error
        in its result.
        """

    @property
    def low_watermark(self) -> int:
        """The least log start offset of all replicas that are up."""

    def await_deletion(self, pending: DelayedOperation, required_offset: int) -> Hashable:
        """Has a DeleteRecords wait, as `await_commit`, until all live replicas begin there."""

    def read(
        self, wanted: PartitionQuery, query: FetchQuery, max_size: int, one_anyway: bool
    ) -> FetchData:
        """Returns what a consumer or a follower may read of the log."""

    def damaged(self, damage: CorruptionError, verb: str) -> ApiError:
        """As `Partition.damaged`; another replica may lead from then on."""

    def check_leader(self, known_epoch: int) -> None:
        """Raises `ApiError` unless this broker leads in the client's epoch; called before answers
        that only the leader can give.
        """

    def check_end(self, end: int) -> None:
        """Raises `ApiError` if `end` may be below an end that an earlier leader has returned
        (KIP-207).
        """


class Partition:
    """One partition. `is_dirty`: it has appends that `Appends.write_out` has yet to write.

    `messages_in`, `bytes_in` and `bytes_out` count appends and reads since the start. `replication`
    is `None` on a single broker, which leads all partitions.
    """

    __slots__ = (
        "bytes_in",
        "bytes_out",
        "directory",
        "index",
        "is_dirty",
        "leader_epoch",
        "log",
        "messages_in",
        "replication",
        "topic",
    )

    def __init__(self, topic: str, index: int, log: PartitionLog, directory: LogDirectory) -> None:
        self.topic = topic
        self.index = index
        self.log = log
        self.directory = directory
        self.leader_epoch = log.epochs.latest_epoch or 0
        self.replication: Replication | None = None
        self.is_dirty = False
        self.messages_in = 0
        self.bytes_in = 0
        self.bytes_out = 0

    @property
    def is_offline(self) -> bool:
        """Whether its log directory has failed, or its own directory is gone."""
        return self.log.health.failure is not None

    def check_leader(self, known_epoch: int = -1) -> None:
        """As `check_leader_epoch`; also raises NOT_LEADER_OR_FOLLOWER if another broker leads."""
        if self.replication is not None:
            self.replication.check_leader(known_epoch)
        else:
            self.check_leader_epoch(known_epoch)

    def check_leader_epoch(self, known_epoch: int) -> None:
        """Raises `ApiError` if a client's leader epoch is not ours (KIP-320); ignores -1, unknown.

        Kafka: `Partition.checkCurrentLeaderEpoch`.
        """
        if known_epoch < 0 or known_epoch == self.leader_epoch:
            return
        if known_epoch < self.leader_epoch:
            raise ApiError(ErrorCode.FENCED_LEADER_EPOCH)
        raise ApiError(ErrorCode.UNKNOWN_LEADER_EPOCH)

    def damaged(self, damage: CorruptionError, verb: str) -> ApiError:
        """Reports damage in the log; returns the error for who asked (`verb`) for what is there."""
        if self.replication is not None:
            return self.replication.damaged(damage, verb)
        logger.error("cannot %s %s-%d: %s", verb, self.topic, self.index, damage)
        return ApiError(ErrorCode.CORRUPT_MESSAGE)

    def find_offset(
        self,
        timestamp_ms: int,
        *,
        isolation: Isolation = Isolation.HIGH_WATERMARK,
        leader_epoch: int = -1,
        in_tier: FoundOffset | None = None,
    ) -> FoundOffset | None:
        """Returns the first offset at or after a time, or the one that a sentinel (-1 to -6) means.

        Returns `None` if no readable record is that late. Raises `ApiError`. `in_tier` was found
        already, so that the local log is not searched. Kafka: `Partition.fetchOffsetForTimestamp`.
        """
        self.check_leader(leader_epoch)
        log = self.log
        is_stable = isolation is Isolation.LAST_STABLE
        # Even where the abort check has not reached this offset yet: fetches wait for it.
        end = log.last_stable_offset if is_stable else log.reader.bound(isolation)
        if timestamp_ms == LATEST_TIMESTAMP:
            if self.replication is not None:
                self.replication.check_end(end)
            return FoundOffset(end, -1, self.leader_epoch)
        try:
            found = in_tier or log.reader.find_timestamp(timestamp_ms)
        except StorageError as error:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR) from error
        except CorruptionError as error:
            raise self.damaged(error, "search") from error
        if timestamp_ms in KNOWN or (found is not None and found.offset < end):
            return found
        if self.replication is not None:
            self.replication.check_end(end)
        return None


def take_back(result: FetchResult, found: Sequence[Partition]) -> None:
    """Takes an unsent result out of the partitions' counts: the partitions will be read again."""
    if result.size:
        for partition, data in zip(found, result.partitions, strict=True):
            assert not isinstance(data, ApiError), "an error is an answer"
            if data.records is not None:
                partition.bytes_out -= data.records.size
