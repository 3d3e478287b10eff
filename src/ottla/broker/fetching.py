"""What a fetch asks for and what it gets, over many partitions, without a word of the wire.

Kafka's counterparts: `FetchParams`, `ReplicaManager.readFromLog`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ottla.base.errors import ApiError
from ottla.base.ids import Uuid
from ottla.storage.log.reader import FetchData, Isolation


@dataclass(slots=True)
class PartitionQuery:
    """One partition of a fetch. A `topic` of `None` is one whose id nobody knows.

    `leader_epoch` is the one that the client knows, -1 when it does not say. With a `topic_id` the
    topic must be that one still, and not a later one of the same name.
    """

    topic: str | None
    index: int
    offset: int
    max_size: int
    leader_epoch: int = -1
    topic_id: Uuid | None = None


@dataclass(slots=True)
class FetchQuery:
    """`is_hard_limit`: `max_size` holds even if no batch fits, as before KIP-74.

    `may_read` says of a topic whether the client may; `None` where everybody may.
    """

    partitions: Sequence[PartitionQuery]
    max_size: int
    min_size: int = 1
    isolation: Isolation = Isolation.HIGH_WATERMARK
    is_hard_limit: bool = False
    may_read: Callable[[str], bool] | None = None


@dataclass(slots=True)
class FetchResult:
    """In the order of the query's partitions: what was read, or why it could not be."""

    partitions: list[FetchData | ApiError]
    size: int
    has_error: bool

    def answers(self, query: FetchQuery) -> bool:
        """Whether it need not wait for more (Kafka: `ReplicaManager.fetchMessages`)."""
        return self.size >= query.min_size or self.has_error or not query.partitions
