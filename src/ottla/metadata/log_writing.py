"""Encodes a metadata log and snapshots, as a controller of Apache Kafka writes them.

Format page: docs/format/cluster-metadata.md. An epoch begins with a LeaderChange control batch,
followed by batches of records; each batch is atomic. Kafka's counterparts: `BatchAccumulator`,
`RecordsSnapshotWriter`, `BootstrapDirectory`.
"""

from collections.abc import Iterable, Sequence

from ottla.base.ids import Uuid
from ottla.codec.schema import Message
from ottla.metadata.control import (
    LeaderChangeMessage,
    LeaderChangeVoter,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    control_key,
    encode_control_record,
)
from ottla.metadata.image_changes import VersionedRecord
from ottla.metadata.records import encode_record
from ottla.record.builder import RecordBatchBuilder

RECORDS_PER_BATCH = 1000
"""Keeps batches smaller than 8 MiB (`KafkaRaftClient.MAX_BATCH_SIZE_BYTES`)."""


def epoch_bytes(
    records: Sequence[VersionedRecord],
    *,
    base_offset: int,
    epoch: int,
    leader: tuple[int, Uuid | None],
    now_ms: int,
) -> bytes:
    """The batches of a leader's epoch: a LeaderChange record, then the records.

    `leader` is the only voter: its node id, and with `kraft.version` 1 its directory id.
    """
    node_id, directory_id = leader
    voter = LeaderChangeVoter(voter_id=node_id)
    if directory_id is not None:
        voter.voter_directory_id = directory_id
    change = LeaderChangeMessage(
        version=0 if directory_id is None else 1,
        leader_id=node_id,
        voters=[voter],
        granting_voters=[voter],
    )
    parts = [control_batch(change, base_offset, epoch, now_ms)]
    for first in range(0, len(records), RECORDS_PER_BATCH):
        chosen = records[first : first + RECORDS_PER_BATCH]
        parts.append(record_batch(chosen, base_offset + 1 + first, epoch, now_ms))
    return b"".join(parts)


def snapshot_bytes(records: Sequence[VersionedRecord], *, epoch: int, now_ms: int) -> bytes:
    """A complete snapshot: a header, the records in one batch, and a footer."""
    return b"".join(
        (
            control_batch(SnapshotHeaderRecord(last_contained_log_timestamp=0), 0, epoch, now_ms),
            record_batch(records, 1, epoch, now_ms),
            control_batch(SnapshotFooterRecord(), 1 + len(records), epoch, now_ms),
        )
    )


def control_batch(record: Message, base_offset: int, epoch: int, now_ms: int) -> bytes:
    """A batch of one control record."""
    builder = RecordBatchBuilder(base_offset, is_control=True, leader_epoch=epoch)
    builder.append(control_key(record), encode_control_record(record), now_ms)
    return bytes(builder.build())


def record_batch(
    records: Iterable[VersionedRecord], base_offset: int, epoch: int, now_ms: int
) -> bytes:
    """A batch of records, which readers apply atomically."""
    builder = RecordBatchBuilder(base_offset, leader_epoch=epoch)
    for record, version in records:
        builder.append(None, encode_record(record, version), now_ms)
    return bytes(builder.build())
