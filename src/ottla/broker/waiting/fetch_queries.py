"""Queries and results of fetches over many partitions, independent of the wire protocol.

Kafka's counterparts: `FetchParams`, `ReplicaManager.readFromLog`.
"""

from collections.abc import Callable, Hashable, Sequence
from typing import Any, Final

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.fetching_session import NOT_NAMED
from ottla.base.ids import Uuid
from ottla.base.values import dataclass
from ottla.storage.log.offsets import Isolation
from ottla.storage.log.reader import FetchData

TELL_MS: Final = 5.0
"""How soon a follower hears that more is committed. Kafka's controllers answer at once (KIP-1166),
as those here do. Of topics there are mostly new records in a moment, which bring the news along: an
answer for each commit would double the messages between brokers, and the time of a produce.
"""

LISTS: Final = "lists of uploads"
"""What fetches wait for while it is not known which uploads a partition has."""


@dataclass(slots=True)
class PartitionQuery:
    """One partition of a fetch; `topic` is `None` if the topic's id is unknown.

    `leader_epoch` is the client's current leader epoch, -1 if unknown. With a `topic_id` the topic
    must have this id, so a later topic of the same name does not match. A follower also sends the
    start offset of its log, the epoch of the record before `offset`, and from version 18 on the
    high watermark that it knows.
    """

    topic: str | None
    index: int
    offset: int
    max_size: int
    leader_epoch: int = -1
    topic_id: Uuid | None = None
    last_fetched_epoch: int = -1
    replica_log_start: int = -1
    replica_high_watermark: int = NOT_NAMED


@dataclass(frozen=True, slots=True)
class Fetcher:
    """The origin of a fetch in a cluster: a follower or, with `replica_id` -1, a consumer, and its
    rack.
    """

    replica_id: int = -1
    broker_epoch: int = -1
    rack: str = ""


class TierFetch:
    """The reads of the remote tier that a fetch has begun, by partition and offset
    (`broker/records/tier_reads.py: TierRead`).

    They are awaited until `deadline_ms`; when it `is_over`, the fetch is answered with what is
    there. `awaits_list`: it is not known yet which uploads some partition has.
    """

    __slots__ = ("awaits_list", "deadline_ms", "is_over", "reads")

    def __init__(self, deadline_ms: float) -> None:
        self.deadline_ms = deadline_ms
        self.is_over = False
        self.awaits_list = False
        self.reads: dict[tuple[Hashable, int], Any] = {}

    def awaited(self) -> list[Hashable]:
        """What the fetch waits for: under these keys it is woken."""
        return [*self.reads.values(), *([LISTS] if self.awaits_list else [])]


@dataclass(slots=True)
class FetchQuery:
    """`is_hard_limit`: `max_size` holds even if no batch fits, as before KIP-74.

    `may_read` returns whether the client may read a topic; `None` if all clients may read all
    topics. `fetcher` is `None` on a single broker, and for a consumer that fetches from leaders
    only. `begun_ms` is the time of the request on the monotonic clock. With `skips_markers` markers
    of transactions alone are of no use. `tier` has the reads of the remote tier that were begun.
    `awaits_commits`: a follower's, which names high watermarks.
    """

    partitions: Sequence[PartitionQuery]
    max_size: int
    min_size: int = 1
    isolation: Isolation = Isolation.HIGH_WATERMARK
    is_hard_limit: bool = False
    may_read: Callable[[str], bool] | None = None
    fetcher: Fetcher | None = None
    begun_ms: float = 0.0
    skips_markers: bool = False
    tier: TierFetch | None = None
    awaits_commits: bool = False

    @property
    def is_of_follower(self) -> bool:
        """Whether it may read uncommitted records."""
        return self.fetcher is not None and self.fetcher.replica_id >= 0


class NoRecordsError(ApiError):
    """An immediate response without records or error: the logs diverge at the end of an epoch
    (KIP-595), or the consumer should read from a replica in its rack (KIP-392).
    """

    def __init__(
        self,
        data: FetchData,
        *,
        diverging: tuple[int, int] | None = None,
        preferred_replica: int = -1,
    ) -> None:
        super().__init__(ErrorCode.NONE)
        self.data = data
        self.diverging = diverging
        self.preferred_replica = preferred_replica


class OffsetMovedError(ApiError):
    """A follower's offset is in the tier only; as in Kafka the answer says where the log begins."""

    def __init__(self, data: FetchData) -> None:
        super().__init__(ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE)
        self.data = data


@dataclass(slots=True)
class FetchResult:
    """For each partition of the query, in its order: the data, or the error.

    `is_reading`: some data is still being read from the remote tier. `has_news`: more is committed
    than a follower knows.
    """

    partitions: list[FetchData | ApiError]
    size: int
    has_error: bool
    is_reading: bool = False
    has_news: bool = False

    def answers(self, query: FetchQuery) -> bool:
        """Whether the response is ready without a wait (Kafka: `ReplicaManager.fetchMessages`).

        What comes from the tier is waited for, and then nothing else.
        """
        if query.tier is not None:
            return not self.is_reading
        return self.size >= query.min_size or self.has_error or not query.partitions
