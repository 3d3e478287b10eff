"""The records of `__remote_log_metadata`, and what they say as values.

Format page: docs/format/remote-log-metadata.md. Kafka's counterparts: the JSON files of the package
`org.apache.kafka.server.log.remote.metadata.storage.generated`, `RemoteLogMetadataSerde` and its
transforms.

Kafka 3.9 does not know `txn_index_empty`, which is a tagged field and written only if it is true.
"""

from itertools import pairwise
from typing import Final

from ottla.base.errors import CorruptionError, ProtocolError
from ottla.base.files import Buffer
from ottla.base.ids import Uuid
from ottla.base.values import dataclass
from ottla.codec.api_messages import UnknownRecordError, decode_api_message, encode_record
from ottla.codec.fields import array, binary, boolean, int8, int32, int64, nested, string, uuid
from ottla.codec.schema import Message, Struct
from ottla.storage.files.filenames import REMOTE_LOG_METADATA
from ottla.storage.remote.segment_metadata import (
    PartitionDeleteState,
    RemoteLogSegmentMetadata,
    SegmentState,
    TopicIdPartition,
)


class TopicIdPartitionEntry(Struct):
    name: str = string("0+")
    id: Uuid = uuid("0+")
    partition: int = int32("0+")


class RemoteLogSegmentIdEntry(Struct):
    topic_id_partition: TopicIdPartitionEntry = nested(TopicIdPartitionEntry, "0+")
    id: Uuid = uuid("0+")


class SegmentLeaderEpochEntry(Struct):
    leader_epoch: int = int32("0+")
    offset: int = int64("0+")


class RemoteLogSegmentMetadataRecord(Message, api_key=0, versions="0", flexible="0+"):
    """An upload begins."""

    remote_log_segment_id: RemoteLogSegmentIdEntry = nested(RemoteLogSegmentIdEntry, "0+")
    start_offset: int = int64("0+")
    end_offset: int = int64("0+")
    broker_id: int = int32("0+")
    max_timestamp_ms: int = int64("0+")
    event_timestamp_ms: int = int64("0+")
    segment_leader_epochs: list[SegmentLeaderEpochEntry] = array(SegmentLeaderEpochEntry, "0+")
    segment_size_in_bytes: int = int32("0+")
    custom_metadata: bytes | None = binary("0+", default=None, nullable="0+")
    remote_log_segment_state: int = int8("0+")
    txn_index_empty: bool = boolean("0+", tag=0)


class RemoteLogSegmentMetadataUpdateRecord(Message, api_key=1, versions="0", flexible="0+"):
    """An upload has another state."""

    remote_log_segment_id: RemoteLogSegmentIdEntry = nested(RemoteLogSegmentIdEntry, "0+")
    broker_id: int = int32("0+")
    event_timestamp_ms: int = int64("0+")
    custom_metadata: bytes | None = binary("0+", default=None, nullable="0+")
    remote_log_segment_state: int = int8("0+")


class RemotePartitionDeleteMetadataRecord(Message, api_key=2, versions="0", flexible="0+"):
    """A partition is deleted with all its uploads. Kafka 3.9 knows these and writes none."""

    topic_id_partition: TopicIdPartitionEntry = nested(TopicIdPartitionEntry, "0+")
    broker_id: int = int32("0+")
    event_timestamp_ms: int = int64("0+")
    remote_partition_delete_state: int = int8("0+")


class RemoteLogSegmentMetadataSnapshotRecord(Message, api_key=3, versions="0", flexible="0+"):
    """An upload in a snapshot file of one partition, which Kafka does not write by default."""

    segment_id: Uuid = uuid("0+")
    start_offset: int = int64("0+")
    end_offset: int = int64("0+")
    broker_id: int = int32("0+")
    max_timestamp_ms: int = int64("0+")
    event_timestamp_ms: int = int64("0+")
    segment_leader_epochs: list[SegmentLeaderEpochEntry] = array(SegmentLeaderEpochEntry, "0+")
    segment_size_in_bytes: int = int32("0+")
    custom_metadata: bytes | None = binary("0+", default=None, nullable="0+")
    remote_log_segment_state: int = int8("0+")
    txn_index_empty: bool = boolean("0+", tag=0)


RECORDS: Final[tuple[type[Message], ...]] = (
    RemoteLogSegmentMetadataRecord,
    RemoteLogSegmentMetadataUpdateRecord,
    RemotePartitionDeleteMetadataRecord,
    RemoteLogSegmentMetadataSnapshotRecord,
)
BY_KEY: Final = {record.API_KEY: record for record in RECORDS}


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentUpdate:
    """Another state of an upload; `custom_metadata` is `None` where it stays as it was."""

    partition: TopicIdPartition
    segment_id: Uuid
    broker_id: int
    event_timestamp_ms: int
    state: SegmentState
    custom_metadata: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionDeletion:
    """The state of a partition's deletion."""

    partition: TopicIdPartition
    broker_id: int
    event_timestamp_ms: int
    state: PartitionDeleteState


Event = RemoteLogSegmentMetadata | SegmentUpdate | PartitionDeletion


def encode_event(event: Event) -> bytes:
    """The value of the record that says this; its key is null."""
    return encode_record(_record_of(event))


def decode_event(value: Buffer) -> Event:
    """What a record's value says.

    Raises `UnknownRecordError` for a type or version of a later Kafka, and `CorruptionError` for an
    invalid value, also if its fields contradict each other.
    """
    try:
        record, _ = decode_api_message(value, BY_KEY)
        return _event_of(record)
    except UnknownRecordError:
        raise
    except (ProtocolError, ValueError) as error:
        raise CorruptionError(REMOTE_LOG_METADATA, 0, str(error)) from error


def _record_of(event: Event) -> Message:
    if isinstance(event, PartitionDeletion):
        return RemotePartitionDeleteMetadataRecord(
            topic_id_partition=_entry_of(event.partition),
            broker_id=event.broker_id,
            event_timestamp_ms=event.event_timestamp_ms,
            remote_partition_delete_state=event.state,
        )
    segment_id = RemoteLogSegmentIdEntry(
        topic_id_partition=_entry_of(event.partition), id=event.segment_id
    )
    if isinstance(event, SegmentUpdate):
        return RemoteLogSegmentMetadataUpdateRecord(
            remote_log_segment_id=segment_id,
            broker_id=event.broker_id,
            event_timestamp_ms=event.event_timestamp_ms,
            custom_metadata=event.custom_metadata,
            remote_log_segment_state=event.state,
        )
    return RemoteLogSegmentMetadataRecord(
        remote_log_segment_id=segment_id,
        start_offset=event.start_offset,
        end_offset=event.end_offset,
        broker_id=event.broker_id,
        max_timestamp_ms=event.max_timestamp_ms,
        event_timestamp_ms=event.event_timestamp_ms,
        segment_leader_epochs=[
            SegmentLeaderEpochEntry(leader_epoch=epoch, offset=offset)
            for epoch, offset in event.leader_epochs
        ],
        segment_size_in_bytes=event.size,
        custom_metadata=event.custom_metadata,
        remote_log_segment_state=event.state,
        txn_index_empty=event.has_no_transactions,
    )


def _event_of(record: Message) -> Event:
    """Raises `ValueError` for fields that Kafka's classes refuse."""
    if isinstance(record, RemoteLogSegmentMetadataUpdateRecord):
        segment_id = record.remote_log_segment_id
        return SegmentUpdate(
            partition=_partition_of(segment_id.topic_id_partition),
            segment_id=segment_id.id,
            broker_id=record.broker_id,
            event_timestamp_ms=record.event_timestamp_ms,
            state=SegmentState(record.remote_log_segment_state),
            custom_metadata=record.custom_metadata,
        )
    if isinstance(record, RemotePartitionDeleteMetadataRecord):
        return PartitionDeletion(
            partition=_partition_of(record.topic_id_partition),
            broker_id=record.broker_id,
            event_timestamp_ms=record.event_timestamp_ms,
            state=PartitionDeleteState(record.remote_partition_delete_state),
        )
    if not isinstance(record, RemoteLogSegmentMetadataRecord):
        raise ValueError(f"a {type(record).__name__} belongs into a snapshot file")
    segment_id = record.remote_log_segment_id
    return RemoteLogSegmentMetadata(
        partition=_partition_of(segment_id.topic_id_partition),
        segment_id=segment_id.id,
        start_offset=record.start_offset,
        end_offset=record.end_offset,
        broker_id=record.broker_id,
        max_timestamp_ms=record.max_timestamp_ms,
        event_timestamp_ms=record.event_timestamp_ms,
        leader_epochs=_checked_epochs(record),
        size=record.segment_size_in_bytes,
        custom_metadata=record.custom_metadata,
        state=SegmentState(record.remote_log_segment_state),
        has_no_transactions=record.txn_index_empty,
    )


def _checked_epochs(record: RemoteLogSegmentMetadataRecord) -> tuple[tuple[int, int], ...]:
    """The leader epochs of a record whose offsets, epochs and size can be those of a segment."""
    first, last = record.start_offset, record.end_offset
    if not 0 <= first <= last:
        raise ValueError(f"a segment from offset {first} to {last}")
    if record.segment_size_in_bytes < 0:
        raise ValueError(f"a segment of {record.segment_size_in_bytes} bytes")
    epochs = tuple((one.leader_epoch, one.offset) for one in record.segment_leader_epochs)
    if not any(first <= offset <= last for _, offset in epochs):
        raise ValueError(f"no leader epoch in the segment from offset {first} to {last}")
    for (epoch, offset), (later_epoch, later_offset) in pairwise([(-1, -1), *epochs]):
        if epoch >= later_epoch or offset > later_offset:
            raise ValueError(f"leader epochs and offsets do not ascend: {epochs}")
    return epochs


def _entry_of(partition: TopicIdPartition) -> TopicIdPartitionEntry:
    return TopicIdPartitionEntry(
        name=partition.topic, id=partition.topic_id, partition=partition.partition
    )


def _partition_of(entry: TopicIdPartitionEntry) -> TopicIdPartition:
    if entry.partition < 0:
        raise ValueError(f"partition {entry.partition}")
    return TopicIdPartition(entry.name, entry.id, entry.partition)
