"""Uploads of segments in tests: their ids are numbers."""

from collections.abc import Mapping

from ottla.base.ids import Uuid
from ottla.storage.remote.metadata_records import SegmentUpdate
from ottla.storage.remote.segment_metadata import (
    RemoteLogSegmentMetadata,
    SegmentState,
    TopicIdPartition,
)
from tests.support.logs import NOW_MS, TOPIC_ID

PARTITION = TopicIdPartition("t", TOPIC_ID, 0)

STARTED = SegmentState.COPY_SEGMENT_STARTED
FINISHED = SegmentState.COPY_SEGMENT_FINISHED
DELETING = SegmentState.DELETE_SEGMENT_STARTED
DELETED = SegmentState.DELETE_SEGMENT_FINISHED


def number_id(number: int) -> Uuid:
    return Uuid(number.to_bytes(16, "big"))


def number_of(segment: RemoteLogSegmentMetadata | None) -> int | None:
    return None if segment is None else int.from_bytes(segment.segment_id, "big")


def upload(
    number: int,
    start: int,
    end: int,
    epochs: Mapping[int, int] | None = None,
    state: SegmentState = FINISHED,
    partition: TopicIdPartition = PARTITION,
) -> RemoteLogSegmentMetadata:
    """An upload of the offsets from `start` to `end`, in epoch 0 unless `epochs` has others."""
    return RemoteLogSegmentMetadata(
        partition=partition,
        segment_id=number_id(number),
        start_offset=start,
        end_offset=end,
        broker_id=1,
        max_timestamp_ms=NOW_MS,
        event_timestamp_ms=NOW_MS,
        leader_epochs=tuple((epochs or {0: start}).items()),
        size=end - start + 1,
        state=state,
    )


def update(
    number: int,
    state: SegmentState,
    custom_metadata: bytes | None = None,
    partition: TopicIdPartition = PARTITION,
) -> SegmentUpdate:
    return SegmentUpdate(
        partition=partition,
        segment_id=number_id(number),
        broker_id=2,
        event_timestamp_ms=NOW_MS + 1,
        state=state,
        custom_metadata=custom_metadata,
    )
