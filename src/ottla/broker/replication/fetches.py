"""A follower's requests for one partition, and the responses.

The values are independent of versions. Records are opaque: for a follower's fetch they are the
bytes of the response.
"""

from typing import Any, Final, TypeAlias

from ottla.base.error_codes import ErrorCode
from ottla.base.fetching_session import NOT_NAMED
from ottla.base.partitions import TopicPartition
from ottla.base.values import dataclass
from ottla.broker.replication.replica_log import EpochEnd

NO_EPOCH: Final = -1
NO_OFFSET: Final = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetch:
    """With `last_fetched_epoch` the leader finds where the logs diverge (KIP-595, version 12). A
    leader that knows more to be committed than `high_watermark` answers at once (KIP-1166, 18).
    """

    partition: TopicPartition
    follower: int
    leader_epoch: int = NO_EPOCH
    fetch_offset: int
    last_fetched_epoch: int = NO_EPOCH
    log_start_offset: int = 0
    broker_epoch: int = -1
    high_watermark: int = NOT_NAMED


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """`leader_epoch` and `fetch_offset` are those of the request."""

    partition: TopicPartition
    leader_epoch: int
    fetch_offset: int
    error: ErrorCode = ErrorCode.NONE
    high_watermark: int = 0
    log_start_offset: int = 0
    diverging: EpochEnd | None = None
    records: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AskEpochEnd:
    """OffsetForLeaderEpoch: where the follower's latest epoch ended at the leader (KIP-101)."""

    partition: TopicPartition
    leader_epoch: int
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochEnded:
    """`end` is `None` if the leader does not know the epoch."""

    partition: TopicPartition
    leader_epoch: int
    epoch: int
    error: ErrorCode = ErrorCode.NONE
    end: EpochEnd | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AskOffsets:
    """ListOffsets: asks where the leader's log begins and ends."""

    partition: TopicPartition
    leader_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Offsets:
    partition: TopicPartition
    leader_epoch: int
    error: ErrorCode = ErrorCode.NONE
    log_start_offset: int = 0
    log_end_offset: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AskLocalStart:
    """ListOffsets: asks where the leader's local segments begin; perhaps also where its log does,
    unless `log_start_offset` is known, and where what is in the tier ends.
    """

    partition: TopicPartition
    leader_epoch: int
    log_start_offset: int = NO_OFFSET
    with_tier_end: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalStart:
    """`offset` is the first that the leader has locally, `epoch` its leader epoch. `tier_end` is
    the leader epoch of the last offset in the tier, and the offset after it; `None` if unknown.
    """

    partition: TopicPartition
    leader_epoch: int
    error: ErrorCode = ErrorCode.NONE
    log_start_offset: int = 0
    offset: int = 0
    epoch: int = NO_EPOCH
    tier_end: EpochEnd | None = None


FollowerRequest: TypeAlias = Fetch | AskEpochEnd | AskOffsets | AskLocalStart
LeaderAnswer: TypeAlias = Fetched | EpochEnded | Offsets | LocalStart
