"""One partition of this broker: its log, its directory, its leader epoch.

Kafka's counterpart: `Partition`, of which a broker without replicas needs little.
"""

from collections.abc import Hashable
from typing import Protocol

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.broker.fetching import FetchQuery, PartitionQuery
from ottla.broker.waiting import DelayedOperation
from ottla.storage.directory.log_directory import LogDirectory
from ottla.storage.log.partition_log import PartitionLog
from ottla.storage.log.reader import FetchData


class Replication(Protocol):
    """The aspects of a partition that involve other brokers (`broker/replicas.py`).

    `check_append` and `read` raise `ApiError`.
    """

    def check_append(self, acks: int) -> None:
        """Called before records are appended."""

    def written_out(self) -> None:
        """Appends were written, and followers may read them."""

    def await_commit(self, pending: DelayedOperation, required_offset: int) -> Hashable:
        """Has a produce wait until all before an offset is committed; returns the partition's key
        in its result."""

    def read(
        self, wanted: PartitionQuery, query: FetchQuery, max_size: int, one_anyway: bool
    ) -> FetchData:
        """What a consumer or a follower may have of the log."""

    def check_leader(self, known_epoch: int) -> None:
        """Before something is answered that only the leader knows; raises `ApiError`."""

    def check_end(self, end: int) -> None:
        """Before an end is said that may be less than what was said in an earlier epoch (KIP-207);
        raises `ApiError`."""


class Partition:
    """`is_dirty`: it holds appends that `Broker.write_out` has still to write.

    `messages_in`, `bytes_in` and `bytes_out` count what was appended and read since the start.
    `replication` is `None` of a broker that is alone: it leads all, and nobody else has a part.
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
        """As `check_leader_epoch`, and then NOT_LEADER_OR_FOLLOWER where another broker leads."""
        if self.replication is not None:
            self.replication.check_leader(known_epoch)
        else:
            self.check_leader_epoch(known_epoch)

    def check_leader_epoch(self, known_epoch: int) -> None:
        """Raises `ApiError` when a client knows another epoch than ours (KIP-320); -1 knows none.

        Kafka: `Partition.checkCurrentLeaderEpoch`.
        """
        if known_epoch < 0 or known_epoch == self.leader_epoch:
            return
        if known_epoch < self.leader_epoch:
            raise ApiError(ErrorCode.FENCED_LEADER_EPOCH)
        raise ApiError(ErrorCode.UNKNOWN_LEADER_EPOCH)
