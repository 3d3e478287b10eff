"""Descriptions of topics, producers and groups: values, independent of how they were read."""

from collections.abc import Iterable, Mapping

from ottla.base.ids import Uuid
from ottla.base.partitions import TopicPartition
from ottla.base.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionDescription:
    """A partition as reported by the cluster; the leader is -1 if there is none."""

    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    offline: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDescription:
    """A topic as the cluster reports it."""

    name: str
    topic_id: Uuid | None
    is_internal: bool
    partitions: tuple[PartitionDescription, ...]


def led_partitions(topic: TopicDescription) -> list[TopicPartition]:
    """The partitions that have a leader."""
    return [
        TopicPartition(topic.name, one.partition) for one in topic.partitions if one.leader >= 0
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionActivity:
    """A partition's bounds and size; `recent_count` is the number of records since the given time.
    The size is `None` if no broker reports it.
    """

    place: TopicPartition
    start_offset: int
    end_offset: int
    recent_count: int
    size: int | None

    @property
    def count(self) -> int:
        """Number of offsets; compaction and transactions may have left fewer records."""
        return self.end_offset - self.start_offset


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicActivity:
    """A topic, with the activity of its partitions."""

    topic: TopicDescription
    partitions: tuple[PartitionActivity, ...]

    @property
    def count(self) -> int:
        return sum(one.count for one in self.partitions)

    @property
    def recent_count(self) -> int:
        return sum(one.recent_count for one in self.partitions)

    @property
    def size(self) -> int | None:
        """Size of one replica; `None` if a partition's is unknown."""
        sizes = [one.size for one in self.partitions]
        return None if None in sizes else sum(one for one in sizes if one is not None)


def count_from(offset: int, start: int, end: int) -> int:
    """Number of offsets from a search result to the end; -1 stands for no result."""
    return 0 if offset < 0 else max(0, end - max(offset, start))


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedTransaction:
    """A transactional id as its coordinator lists it."""

    transactional_id: str
    producer_id: int
    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ActiveProducer:
    """A producer with a producer id that has written to a partition."""

    producer_id: int
    producer_epoch: int
    last_timestamp_ms: int
    transaction_start_offset: int | None
    """The first offset of its open transaction; `None` if none is open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedGroup:
    """A group as listed by its coordinator; state and kind are empty if it does not report them."""

    group: str
    state: str
    kind: str
    """`classic`, `consumer` for the protocol of KIP-848, or `share` for that of KIP-932."""
    coordinator: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMember:
    """A member, what it subscribes to, and what it has been assigned."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    topics: tuple[str, ...]
    assigned: tuple[TopicPartition, ...]
    epoch: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDescription:
    """A group, as its coordinator describes it."""

    group: str
    kind: str
    state: str
    assignor: str
    coordinator: int
    members: tuple[GroupMember, ...]
    epoch: int | None = None

    @property
    def is_empty(self) -> bool:
        """Whether the group has no members, so that its offsets can be changed."""
        return not self.members


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroupOffset:
    """Where a share group is in a partition: `start_offset` is the first record that it has not
    finished, and `lag` the number of those. `None` where it has not begun, or is not known.
    """

    start_offset: int | None
    lag: int | None


UNKNOWN_OFFSET = -1
"""The offsets of a partition whose leader does not answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLag:
    """The lag of a group in a partition. `late_ms` is the age of the first record that it has not
    read; `None` if there is none, or if it was not requested. Where nothing is committed and the
    leader does not answer, `start_offset` and `end_offset` are -1.

    Of a share group `committed` is the first record that it has not finished, and `counted_lag` the
    number of those, which need not follow each other.
    """

    place: TopicPartition
    committed: int | None
    start_offset: int
    end_offset: int
    late_ms: int | None = None
    member: str | None = None
    counted_lag: int | None = None

    @property
    def lag(self) -> int | None:
        """Records to read, without those that were deleted unread."""
        if self.committed is None or self.counted_lag is not None:
            return self.counted_lag
        return count_from(self.committed, self.start_offset, self.end_offset)

    @property
    def lost_count(self) -> int:
        """Records that were deleted before the group had read them."""
        return 0 if self.committed is None else max(0, self.start_offset - self.committed)


def totals(lags: Iterable[PartitionLag]) -> Mapping[str, int | None]:
    """Sums of a whole group: records to read, the largest `late_ms`, and how many partitions have
    no committed offset. Those have no lag: where the group will begin there is not known.
    """
    known = list(lags)
    late = [one.late_ms for one in known if one.late_ms is not None]
    return {
        "lag": sum(one.lag or 0 for one in known),
        "late_ms": max(late) if late else None,
        "uncommitted": sum(one.committed is None for one in known),
    }
