"""Effects: changes to logs and answers to clients that the machine requests.

The caller carries them out immediately and in order.
"""

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
    """Also if no broker leads. Coordinators drop the groups and transactions of the partition."""

    partition: TopicPartition
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class Stopped:
    """The partition is neither led nor followed any more; with `delete` its log is deleted."""

    partition: TopicPartition
    delete: bool


@dataclass(frozen=True, slots=True)
class AssignEpoch:
    """Begins a leader epoch in the log, at an offset."""

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
    """Removes all records; the next record has this offset."""

    partition: TopicPartition
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildFromTier:
    """Begins the log at `start_offset`, where the leader's local segments do, or what has not been
    copied yet, with what the tier has of the state before: leader epochs and producers. Call
    `ReplicaManager.built` afterwards.

    The tier has the offset before it, of leader epoch `epoch`.
    """

    partition: TopicPartition
    leader_epoch: int
    start_offset: int
    epoch: int
    log_start_offset: int


@dataclass(frozen=True, slots=True)
class AppendAsFollower:
    """Appends the response's records unchanged; call `ReplicaManager.appended_as_follower`
    afterwards.
    """

    partition: TopicPartition
    fetched: Fetched


@dataclass(frozen=True, slots=True)
class MoveHighWatermark:
    """The high watermark has moved; waiting fetches may have more to read."""

    partition: TopicPartition
    offset: int


@dataclass(frozen=True, slots=True)
class RaiseLogStart:
    """The leader has deleted the records before the offset."""

    partition: TopicPartition
    offset: int


@dataclass(frozen=True, slots=True)
class AnswerDelayed:
    """The result of one partition of a request that waits for other replicas."""

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
    | BuildFromTier
    | AppendAsFollower
    | MoveHighWatermark
    | RaiseLogStart
    | AnswerDelayed
)

BeforeEffect: TypeAlias = Callable[[Effect], None]
"""Called with each effect before it is carried out, for observers."""
