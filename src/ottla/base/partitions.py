"""A partition of a topic, and a range of its offsets."""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, TypeVar

from ottla.base.ids import Uuid
from ottla.base.values import dataclass

Topic = TypeVar("Topic", bound=str | bytes)
"""A topic's name or id."""


MAX_PARTITION = (1 << 31) - 1

CLUSTER_METADATA = "__cluster_metadata"
"""The name of the metadata log, which is no topic's."""

CLUSTER_METADATA_ID: Final = Uuid(bytes(15) + b"\1")
"""Its id, in every cluster (`Uuid.METADATA_TOPIC_ID`)."""

REMOTE_LOG_METADATA = "__remote_log_metadata"
"""The topic of a remote tier's metadata."""

CONSUMER_OFFSETS = "__consumer_offsets"
TRANSACTION_STATE = "__transaction_state"
SHARE_GROUP_STATE = "__share_group_state"
"""The topics of coordinators."""


class TopicPartition(NamedTuple):
    """A partition; its text is the name of its directory.

    >>> place = ottla.TopicPartition("orders", 0)
    >>> str(place), place.topic, place.partition
    ('orders-0', 'orders', 0)
    """

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


Place = tuple[str, int]
"""A partition as an application may write it: a `TopicPartition`, or a pair."""

Offsets = Mapping[TopicPartition, int] | Mapping[Place, int]
"""Offsets or times by partition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetRange:
    """Offsets from `from_offset` (inclusive) to `until_offset` (exclusive)."""

    from_offset: int
    until_offset: int

    @property
    def offsets(self) -> "OffsetRange":
        """The range without the fields of subclasses."""
        return OffsetRange(from_offset=self.from_offset, until_offset=self.until_offset)

    @property
    def count(self) -> int:
        """The number of offsets, which is at least the number of records."""
        return self.until_offset - self.from_offset

    @property
    def is_empty(self) -> bool:
        return self.until_offset <= self.from_offset


def by_topic(partitions: Iterable[tuple[Topic, int]]) -> dict[Topic, list[int]]:
    """Partition numbers by topic, both ascending."""
    found: dict[Topic, list[int]] = {}
    for topic, number in sorted(partitions):
        found.setdefault(topic, []).append(number)
    return found
