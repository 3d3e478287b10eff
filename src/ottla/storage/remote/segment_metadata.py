"""What is known of one uploaded segment: Kafka's `RemoteLogSegmentMetadata`.

Each upload has an id of its own, so that a segment which is copied again never replaces the objects
of an earlier attempt. Format page: docs/format/remote-log-metadata.md.
"""

from collections.abc import Iterator
from enum import IntEnum
from itertools import zip_longest

from ottla.base.ids import Uuid
from ottla.base.values import dataclass


class SegmentState(IntEnum):
    """The life of an upload; each state may be followed by the next ones only, or repeated."""

    COPY_SEGMENT_STARTED = 0
    COPY_SEGMENT_FINISHED = 1
    DELETE_SEGMENT_STARTED = 2
    DELETE_SEGMENT_FINISHED = 3

    def may_become(self, state: "SegmentState") -> bool:
        """Kafka: `RemoteLogSegmentState.isValidTransition`."""
        if self is SegmentState.COPY_SEGMENT_STARTED:
            return state is not SegmentState.DELETE_SEGMENT_FINISHED
        return 0 <= state - self <= 1


class PartitionDeleteState(IntEnum):
    """How far the deletion of a partition's uploads is; the states follow each other."""

    DELETE_PARTITION_MARKED = 0
    DELETE_PARTITION_STARTED = 1
    DELETE_PARTITION_FINISHED = 2

    def may_become(self, state: "PartitionDeleteState") -> bool:
        """Kafka: `RemotePartitionDeleteState.isValidTransition`."""
        return 0 <= state - self <= 1


class IndexType(IntEnum):
    """The files that are uploaded with a segment's `.log`."""

    OFFSET = 0
    TIMESTAMP = 1
    PRODUCER_SNAPSHOT = 2
    TRANSACTION = 3
    LEADER_EPOCH = 4


@dataclass(frozen=True, slots=True)
class TopicIdPartition:
    """A partition of one of the topics that have had a name."""

    topic: str
    topic_id: Uuid
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteLogSegmentMetadata:
    """`end_offset` is inclusive, `size` the bytes of the `.log`.

    `leader_epochs` are pairs of an epoch and its first offset in the segment, ascending; never
    empty. `has_no_transactions`: false says nothing, since earlier writers do not say.
    """

    partition: TopicIdPartition
    segment_id: Uuid
    start_offset: int
    end_offset: int
    broker_id: int
    max_timestamp_ms: int
    event_timestamp_ms: int
    leader_epochs: tuple[tuple[int, int], ...]
    size: int
    custom_metadata: bytes | None = None
    state: SegmentState = SegmentState.COPY_SEGMENT_STARTED
    has_no_transactions: bool = False

    def epoch_ranges(self) -> Iterator[tuple[int, int, int]]:
        """Each leader epoch with its first and its last offset in the segment.

        An epoch in which nothing was written is left out.
        """
        starts = [start for _, start in self.leader_epochs]
        for (epoch, start), following in zip_longest(self.leader_epochs, starts[1:]):
            first = max(start, self.start_offset)
            last = self.end_offset if following is None else min(following - 1, self.end_offset)
            if first <= last:
                yield epoch, first, last
