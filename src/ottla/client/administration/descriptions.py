"""Topics, producers and groups with what is known of them: values, wherever they were asked of."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ottla.base.ids import Uuid
from ottla.base.partitions import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionDescription:
    """A partition as the cluster reports it; the leader is -1 where there is none."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionActivity:
    """A partition's bounds and size; `recent_count` is records since the time asked about.

    The size is `None` where no broker reports it.
    """

    place: TopicPartition
    start_offset: int
    end_offset: int
    recent_count: int
    size: int | None

    @property
    def count(self) -> int:
        """Offsets that are left, of which compaction and transactions may have taken some."""
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
        """Of one replica; `None` where a partition's is not known."""
        sizes = [one.size for one in self.partitions]
        return None if None in sizes else sum(one for one in sizes if one is not None)


def count_from(offset: int, start: int, end: int) -> int:
    """Offsets of a partition from one on that a search has found; -1: it has found none."""
    return 0 if offset < 0 else max(0, end - max(offset, start))


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedTransaction:
    """A transactional id as its coordinator lists it."""

    transactional_id: str
    producer_id: int
    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ActiveProducer:
    """A producer that has written to a partition with a producer id of its own."""

    producer_id: int
    producer_epoch: int
    last_timestamp_ms: int
    transaction_start_offset: int | None
    """Where its open transaction begins there; `None` when none is open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedGroup:
    """A group as its coordinator lists it; state and kind are empty where it does not say."""

    group: str
    state: str
    kind: str
    """`classic`, or `consumer` for the protocol of KIP-848."""
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
        """Whether nobody reads in it, so that its offsets may be changed."""
        return not self.members


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLag:
    """How far a group is behind in a partition.

    `late_ms` is the age of the first record that it has not read; `None` when there is none, or
    when it was not asked for.
    """

    place: TopicPartition
    committed: int | None
    start_offset: int
    end_offset: int
    late_ms: int | None = None
    member: str | None = None

    @property
    def lag(self) -> int | None:
        """Records to read, those that were deleted unread left out."""
        if self.committed is None:
            return None
        return max(0, self.end_offset - max(self.committed, self.start_offset))

    @property
    def lost_count(self) -> int:
        """Records that were deleted before the group had read them."""
        return 0 if self.committed is None else max(0, self.start_offset - self.committed)


def totals(lags: Iterable[PartitionLag]) -> Mapping[str, int | None]:
    """Of a whole group: records to read, and how late the latest partition is."""
    known = list(lags)
    late = [one.late_ms for one in known if one.late_ms is not None]
    return {
        "lag": sum(one.lag or 0 for one in known),
        "late_ms": max(late) if late else None,
    }
