"""One partition of this broker: its log, its directory, its leader epoch.

Kafka's counterpart: `Partition`, of which a broker without replicas needs little.
"""

from collections.abc import Hashable, Sequence
from typing import Protocol

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.broker.fetching import FetchQuery, FetchResult, PartitionQuery
from ottla.broker.waiting import DelayedOperation
from ottla.storage.directory.log_directory import LogDirectory
from ottla.storage.log.partition_log import PartitionLog
from ottla.storage.log.reader import FetchData


class Replication(Protocol):
    """The part of a partition that involves other brokers (`broker/replicas.py`).

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

    def check_leader(self, known_epoch: int) -> None:
        """Raises `ApiError` unless this broker leads in the client's epoch; called before answers
        that only the leader can give.
        """

    def check_end(self, end: int) -> None:
        """Raises `ApiError` if `end` may be below an end that an earlier leader has returned
        (KIP-207).
        """


class Partition:
    """One partition. `is_dirty`: it has appends that `Broker.write_out` has yet to write.

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


def take_back(result: FetchResult, found: Sequence[Partition]) -> None:
    """Takes an unsent result out of the partitions' counts: the partitions will be read again."""
    if result.size:
        for partition, data in zip(found, result.partitions, strict=True):
            assert not isinstance(data, ApiError), "an error is an answer"
            if data.records is not None:
                partition.bytes_out -= data.records.size
