"""Encodes a metadata log and snapshots, as a controller of Apache Kafka writes them.

Format page: docs/format/cluster-metadata.md. An epoch begins with a LeaderChange control batch,
followed by batches of records; each batch is atomic. Kafka's counterparts: `BatchAccumulator`,
`RecordsSnapshotWriter`, `BootstrapDirectory`.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from ottla.base.ids import Uuid
from ottla.codec.api_messages import encode_record
from ottla.codec.schema import Message
from ottla.metadata.control import (
    LeaderChangeMessage,
    LeaderChangeVoter,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    control_key,
    encode_control_record,
)
from ottla.metadata.image import METADATA_VERSION, MetadataImage
from ottla.metadata.image_changes import VersionedRecord, image_changes
from ottla.metadata.records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    ZkMigrationStateRecord,
)
from ottla.record.builder import PackedRecords, RecordBatchBuilder

RECORDS_PER_BATCH = 1000
"""Keeps batches smaller than 8 MiB (`KafkaRaftClient.MAX_BATCH_SIZE_BYTES`)."""

RECORDS_PER_STEP = 100
"""How many records of a snapshot are encoded at a time: 1 ms."""


def leader_change(node_id: int, directory_id: Uuid | None) -> LeaderChangeMessage:
    """The first record of the epoch of a leader that is the only voter.

    `directory_id` is the voter's with `kraft.version` 1.
    """
    voter = LeaderChangeVoter(voter_id=node_id)
    if directory_id is not None:
        voter.voter_directory_id = directory_id
    return LeaderChangeMessage(
        version=0 if directory_id is None else 1,
        leader_id=node_id,
        voters=[voter],
        granting_voters=[voter],
    )


def snapshot_parts(
    records: Iterable[VersionedRecord],
    *,
    epoch: int,
    now_ms: int,
    head: Sequence[Message] = (),
    last_timestamp_ms: int = 0,
) -> Iterator[bytes]:
    """A complete snapshot, batch by batch: a header, the records, and a footer.

    Some parts are empty, so that a caller can do the work in short steps. `head` are the control
    records about voters that follow the header, with `kraft.version` 1. `last_timestamp_ms` is that
    of the last record which the snapshot stands for.
    """
    header = SnapshotHeaderRecord(last_contained_log_timestamp=last_timestamp_ms)
    yield control_batch([header, *head], 0, epoch, now_ms)
    offset = 1 + len(head)
    builder, count = RecordBatchBuilder(offset, leader_epoch=epoch), 0
    for record, version in records:
        builder.append(None, encode_record(record, version), now_ms)
        count += 1
        if count == RECORDS_PER_BATCH:
            yield bytes(builder.build())
            offset += count
            builder, count = RecordBatchBuilder(offset, leader_epoch=epoch), 0
        elif count % RECORDS_PER_STEP == 0:
            yield b""
    if count:
        yield bytes(builder.build())
    yield control_batch([SnapshotFooterRecord()], offset + count, epoch, now_ms)


def control_batch(records: Sequence[Message], base_offset: int, epoch: int, now_ms: int) -> bytes:
    """A batch of control records."""
    builder = RecordBatchBuilder(base_offset, is_control=True, leader_epoch=epoch)
    for record in records:
        builder.append(control_key(record), encode_control_record(record), now_ms)
    return bytes(builder.build())


Batch = Sequence[VersionedRecord] | PackedRecords
"""Records that readers apply atomically."""


def encoded(batch: Batch) -> Sequence[bytes] | PackedRecords:
    """What is appended of a batch."""
    if isinstance(batch, PackedRecords):
        return batch
    return [encode_record(record, version) for record, version in batch]


def record_batch(batch: Batch, base_offset: int, epoch: int, now_ms: int) -> bytes:
    """A batch of records, which readers apply atomically."""
    packed = batch if isinstance(batch, PackedRecords) else packed_records(batch)
    return packed.batch(base_offset, leader_epoch=epoch, timestamp_ms=now_ms)


def packed_records(records: Iterable[VersionedRecord]) -> PackedRecords:
    packed = PackedRecords()
    for record, version in records:
        packed.append(encode_record(record, version))
    return packed


def first_records(image: MetadataImage, level: int) -> list[VersionedRecord]:
    """The records of a new log: those that the directory was formatted with, or its level."""
    features = image.features or {METADATA_VERSION: level}
    return list(image_changes(MetadataImage(), replace(image, features=features)))


def formatting(records: Sequence[VersionedRecord]) -> list[VersionedRecord]:
    """A new log's first records, in a metadata transaction, as Kafka's controller writes them."""
    state = ZkMigrationStateRecord(zk_migration_state=0), 0
    return in_transaction("Bootstrap records", [*records, state])


def in_transaction(name: str, records: Sequence[VersionedRecord]) -> list[VersionedRecord]:
    """Records that readers apply together, also if they are in several batches."""
    return [(BeginTransactionRecord(name=name), 0), *records, (EndTransactionRecord(), 0)]


def abort() -> VersionedRecord:
    """Ends a transaction that the leader before has not ended."""
    return AbortTransactionRecord(reason="a new epoch has begun"), 0
