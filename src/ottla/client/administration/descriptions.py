"""Topics with their partitions, and what is in them: values, wherever they were asked of."""

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
