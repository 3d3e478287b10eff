"""What is known of one uploaded segment: Kafka's `RemoteLogSegmentMetadata`.

Each upload has an id of its own, so that a segment which is copied again never replaces the objects
of an earlier attempt. Format page: docs/format/remote-log-metadata.md.
"""

from collections.abc import Iterator
from enum import IntEnum

from ottla.base.ids import Uuid
from ottla.base.values import dataclass


class SegmentState(IntEnum):
    """The life of an upload; each state may be followed by the next ones only, or repeated."""

    COPY_SEGMENT_STARTED = 0
    COPY_SEGMENT_FINISHED = 1
    DELETE_SEGMENT_STARTED = 2
    DELETE_SEGMENT_FINISHED = 3


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
        """Each leader epoch with its first and its last offset in the segment."""
        for number, (epoch, start) in enumerate(self.leader_epochs):
            is_last = number + 1 == len(self.leader_epochs)
            end = self.end_offset if is_last else self.leader_epochs[number + 1][1] - 1
            yield epoch, start, end
