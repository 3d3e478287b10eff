"""What the machine wants done to logs and waiting clients, in this order and immediately."""

from collections.abc import Callable, Hashable
from typing import TypeAlias

from ottla.base.error_codes import ErrorCode
from ottla.base.partitions import TopicPartition
from ottla.base.values import dataclass
from ottla.broker.replication.fetches import Fetched


@dataclass(frozen=True, slots=True)
class BecameLeader:
    partition: TopicPartition
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class BecameFollower:
    """Also where nobody leads. Groups and transactions of the partition are given up."""

    partition: TopicPartition
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class Stopped:
    """The partition is neither led nor followed; with `delete` its log goes."""

    partition: TopicPartition
    delete: bool


@dataclass(frozen=True, slots=True)
class AssignEpoch:
    """The log's leader epochs have this one, from an offset on."""

    partition: TopicPartition
    leader_epoch: int
    start_offset: int


@dataclass(frozen=True, slots=True)
class TruncateTo:
    """Removes records and leader epochs from the offset on."""

    partition: TopicPartition
    offset: int


@dataclass(frozen=True, slots=True)
class TruncateFullyAndStartAt:
    """Removes all records; the next one has this offset."""

    partition: TopicPartition
    offset: int


@dataclass(frozen=True, slots=True)
class AppendAsFollower:
    """The records of an answer, verbatim; `ReplicaManager.appended_as_follower` comes after."""

    partition: TopicPartition
    fetched: Fetched


@dataclass(frozen=True, slots=True)
class MoveHighWatermark:
    """Waiting fetches may have something to read."""

    partition: TopicPartition
    offset: int


@dataclass(frozen=True, slots=True)
class RaiseLogStart:
    """The leader has deleted what is before the offset."""

    partition: TopicPartition
    offset: int


@dataclass(frozen=True, slots=True)
class AnswerDelayed:
    """One partition of a request that waits for other replicas."""

    pending_id: Hashable
    partition: TopicPartition
    error: ErrorCode


Effect: TypeAlias = (
    BecameLeader
    | BecameFollower
    | Stopped
    | AssignEpoch
    | TruncateTo
    | TruncateFullyAndStartAt
    | AppendAsFollower
    | MoveHighWatermark
    | RaiseLogStart
    | AnswerDelayed
)

BeforeEffect: TypeAlias = Callable[[Effect], None]
"""Hears what is about to be done; for those who watch over it."""
