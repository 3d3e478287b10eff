"""Dumps any file of a log directory as rows, in file order; damage is a row too.

Format pages: docs/format/README.md. Kafka's counterpart: `DumpLogSegments`.
"""

import json
from collections.abc import Callable, Iterator
from typing import TypeVar

from ottla.base.errors import CorruptionError, UserError
from ottla.base.files import FileSystem, base_name, parent_directory, read_file
from ottla.base.ids import uuid_text
from ottla.record.batch import (
    MAX_SEQUENCE,
    NO_SEQUENCE,
    Batch,
    InvalidBatchError,
    RecordBatch,
    TimestampType,
)
from ottla.record.control import MARKER_VALUE, ControlRecordType, control_type
from ottla.record.legacy import LegacyBatch
from ottla.record.record import Record, read_records
from ottla.storage.damage_scan import DamagedRegion, ScannedBatch, scan_log
from ottla.storage.diagnosis import rows
from ottla.storage.diagnosis.index_entries import parse_index
from ottla.storage.diagnosis.metadata_rows import decoded_metadata
from ottla.storage.diagnosis.roles import (
    DirectoryKind,
    FileDescription,
    Role,
    describe,
    directory_kind,
    files_in_order,
    is_directory,
    partitions_in_order,
)
from ottla.storage.diagnosis.rows import DamageRow, FreeRow, Row
from ottla.storage.files import filenames
from ottla.storage.files.checkpoints import CheckpointLines, parse_checkpoint_entry
from ottla.storage.files.checksummed import without_checksum
from ottla.storage.files.integrity import parse_integrity
from ottla.storage.files.java_properties import parse_properties
from ottla.storage.files.meta_properties import read_meta_properties
from ottla.storage.files.partition_metadata import read_topic_id
from ottla.storage.index import transaction_index
from ottla.storage.index.producer_snapshot import parse_snapshot
from ottla.storage.log.leader_epochs import parse_epoch_entry

Value = TypeVar("Value")


def files_to_dump(file_system: FileSystem, path: str) -> list[str]:
    """The path of a file, or of all files in a directory, in order; raises `UserError`."""
    status = file_system.status(path)
    if status is None:
        raise UserError(f"{path} does not exist")
    if not status.is_directory:
        if describe(base_name(path)).role in (Role.UNKNOWN, Role.LOCK):
            raise UserError(f"{path} is not named like a file of a log directory")
        return [path]
    kind = directory_kind(file_system, path)
    directories = [path]
    if kind is DirectoryKind.LOG_DIRECTORY:
        directories += partitions_in_order(file_system, path)
    return [one for directory in directories for one in files_in_order(file_system, directory)]


def dump_file(file_system: FileSystem, path: str, *, deep: bool = False) -> Iterator[Row]:
    """A file's heading and content as rows; with `deep` also the records of each batch.

    A file that a broker removes meanwhile yields a row of damage. Raises `OSError`.
    """
    described = describe(base_name(path))
    status = file_system.status(path)
    if status is None or is_directory(file_system, path):
        yield DamageRow(position=0, size=None, reason="the file does not exist")
        return
    yield rows.FileRow(kind=_kind_text(described), size=status.size)
    try:
        if described.role in (Role.LOG, Role.METADATA_SNAPSHOT):
            yield from _log_rows(file_system, path, described.offset, deep=deep)
        elif described.role in CONTENT_ROWS:
            yield from CONTENT_ROWS[described.role](path, read_file(file_system, path))
            _check_whole(file_system, path, described.role)
    except CorruptionError as error:
        yield DamageRow(position=error.position, size=None, reason=error.reason)
    except FileNotFoundError:
        yield DamageRow(position=0, size=None, reason="the file was deleted meanwhile")


def _kind_text(described: FileDescription) -> str:
    kind = described.role.value
    if described.is_cut:
        return f"{kind} (removed by a repair)"
    return f"{kind} ({described.suffix.value[1:]})" if described.suffix.value else kind


def _check_whole(file_system: FileSystem, path: str, role: Role) -> None:
    """Checks a file as a whole, such as its checksum; raises `CorruptionError`."""
    if role is Role.META_PROPERTIES:
        read_meta_properties(file_system, path)
    elif role is Role.PARTITION_METADATA:
        read_topic_id(file_system, path)


# Logs


def _log_rows(file_system: FileSystem, path: str, base_offset: int, *, deep: bool) -> Iterator[Row]:
    is_metadata = base_name(parent_directory(path)).startswith(filenames.CLUSTER_METADATA) or (
        describe(base_name(path)).role is Role.METADATA_SNAPSHOT
    )
    shown = decoded_metadata if is_metadata else _as_it_is
    file = file_system.open(path)
    try:
        for found in scan_log(file, base_offset):
            if isinstance(found, DamagedRegion):
                yield from _damage_rows(found)
                continue
            yield batch_row(found.position, found.batch)
            if deep:
                yield from map(shown, _record_rows(found))
    finally:
        file.close()


def _as_it_is(row: Row) -> Row:
    return row


def _damage_rows(region: DamagedRegion) -> Iterator[Row]:
    """The row of damaged bytes; a whole batch with a wrong CRC is shown as a batch."""
    batch = region.batch
    if region.is_zero and region.is_tail:
        yield FreeRow(position=region.position, size=region.size)
    elif batch is not None and batch.size == region.size:
        yield batch_row(region.position, batch, error=region.reason)
    else:
        yield DamageRow(position=region.position, size=region.size, reason=region.reason)


def batch_row(position: int, batch: Batch, *, error: str | None = None) -> rows.BatchRow:
    is_v2 = isinstance(batch, RecordBatch)
    base_timestamp = batch.base_timestamp_ms if isinstance(batch, RecordBatch) else None
    timestamp_type = batch.timestamp_type
    assert isinstance(batch, RecordBatch | LegacyBatch)
    return rows.BatchRow(
        position=position,
        base_offset=_readable(lambda: batch.base_offset),
        last_offset=batch.last_offset,
        count=_readable(lambda: batch.record_count),
        size=batch.size,
        magic=batch.magic,
        compression=_readable(lambda: batch.compression.name.lower()),
        timestamp_type=None if timestamp_type is None else timestamp_type.kafka_name,
        base_timestamp=None if batch.has_delete_horizon else base_timestamp,
        max_timestamp=batch.max_timestamp_ms,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
        last_sequence=batch.last_sequence,
        partition_leader_epoch=batch.partition_leader_epoch,
        is_transactional=batch.is_transactional,
        is_control=batch.is_control,
        delete_horizon_ms=base_timestamp if is_v2 and batch.has_delete_horizon else None,
        crc=batch.crc,
        is_valid=error is None,
        error=error,
    )


def _readable(read: Callable[[], Value]) -> Value | None:
    """A field of a batch; `None` if the batch is too damaged to read it."""
    try:
        return read()
    except InvalidBatchError:
        return None


def _record_rows(found: ScannedBatch) -> Iterator[Row]:
    try:
        for record in read_records(found.batch):
            yield _record_row(found.batch, record)
    except InvalidBatchError as error:
        yield DamageRow(
            position=found.position,
            size=found.batch.size,
            reason=f"the CRC is right, but the records cannot be decoded: {error}",
        )


def _record_row(batch: Batch, record: Record) -> rows.RecordRow:
    sequence = NO_SEQUENCE
    if batch.base_sequence >= 0:
        sequence = (batch.base_sequence + record.offset - batch.base_offset) & MAX_SEQUENCE
    kind, coordinator_epoch = _control_fields(batch, record)
    return rows.RecordRow(
        offset=record.offset,
        timestamp=record.timestamp_ms,
        timestamp_type=_timestamp_type_name(record.timestamp_type),
        sequence=sequence,
        key_size=-1 if record.key is None else len(record.key),
        value_size=-1 if record.value is None else len(record.value),
        key=record.key,
        value=record.value,
        headers=record.headers,
        control_type=kind,
        coordinator_epoch=coordinator_epoch,
    )


def _timestamp_type_name(timestamp_type: TimestampType | None) -> str | None:
    return None if timestamp_type is None else timestamp_type.kafka_name


def _control_fields(batch: Batch, record: Record) -> tuple[str | None, int | None]:
    """The type of a control record, and the coordinator epoch of a transaction marker."""
    if not batch.is_control:
        return None, None
    kind = control_type(record.key)
    if kind is None:
        return "UNKNOWN", None
    value = record.value
    is_marker = kind in (ControlRecordType.ABORT, ControlRecordType.COMMIT)
    if not is_marker or value is None or len(value) < MARKER_VALUE.size:
        return kind.name, None
    return kind.name, MARKER_VALUE.unpack_from(value)[1]


# Indexes and snapshots


def _offset_index_rows(path: str, content: bytes) -> Iterator[Row]:
    return _index_rows(path, content, Role.OFFSET_INDEX)


def _time_index_rows(path: str, content: bytes) -> Iterator[Row]:
    return _index_rows(path, content, Role.TIME_INDEX)


def _index_rows(path: str, content: bytes, role: Role) -> Iterator[Row]:
    index = parse_index(content, role, describe(base_name(path)).offset)
    for first, second in index.entries:
        if role is Role.OFFSET_INDEX:
            yield rows.OffsetIndexRow(offset=first, position=second)
        else:
            yield rows.TimeIndexRow(timestamp=first, offset=second)
    if index.free_size:
        yield FreeRow(position=index.position_of(len(index.entries)), size=index.free_size)
    yield from _excess_rows(index.excess_position, index.excess_size)


def _excess_rows(position: int, size: int) -> Iterator[Row]:
    if size:
        yield DamageRow(position=position, size=size, reason=f"{size} bytes are not a whole entry")


def _transaction_index_rows(path: str, content: bytes) -> Iterator[Row]:
    layout = transaction_index.ENTRY
    excess = len(content) % layout.size
    for fields in layout.iter_unpack(content[: len(content) - excess]):
        yield rows.AbortedTransactionRow(
            version=fields[0],
            producer_id=fields[1],
            first_offset=fields[2],
            last_offset=fields[3],
            last_stable_offset=fields[4],
        )
    yield from _excess_rows(len(content) - excess, excess)


def _snapshot_rows(path: str, content: bytes) -> Iterator[Row]:
    for entry in parse_snapshot(path, content):
        first_sequence = NO_SEQUENCE
        if entry.last_sequence >= 0:
            first_sequence = (entry.last_sequence - entry.offset_delta) & MAX_SEQUENCE
        yield rows.ProducerRow(
            producer_id=entry.producer_id,
            producer_epoch=entry.epoch,
            coordinator_epoch=entry.coordinator_epoch,
            current_txn_first_offset=entry.transaction_first_offset,
            last_timestamp=entry.timestamp_ms,
            first_sequence=first_sequence,
            last_sequence=entry.last_sequence,
            last_offset=entry.last_offset,
            offset_delta=entry.offset_delta,
        )


# Text


def _epoch_rows(path: str, content: bytes) -> Iterator[Row]:
    lines = CheckpointLines(path, content)
    for words in lines:
        entry = parse_epoch_entry(lines, words)
        yield rows.LeaderEpochRow(epoch=entry.epoch, start_offset=entry.start_offset)


def _checkpoint_rows(path: str, content: bytes) -> Iterator[Row]:
    lines = CheckpointLines(path, content)
    for words in lines:
        (topic, partition), offset = parse_checkpoint_entry(lines, words)
        yield rows.CheckpointRow(topic=topic, partition=partition, offset=offset)


def _property_rows(path: str, content: bytes) -> Iterator[Row]:
    """The rows of a file with `key=value`, or `key: value` as in partition.metadata."""
    try:
        properties = parse_properties(content.decode("latin-1"))
    except ValueError as error:
        raise CorruptionError(path, 0, str(error)) from error
    for name, value in properties.items():
        yield rows.PropertyRow(name=name, value=value)


def _json_rows(path: str, content: bytes) -> Iterator[Row]:
    """The fields of a small JSON file; older brokers left the clean-shutdown mark empty."""
    if not content:
        return
    try:
        fields = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise CorruptionError(path, 0, "is not JSON") from error
    if not isinstance(fields, dict):
        raise CorruptionError(path, 0, "is not a JSON object")
    for name, value in fields.items():
        text = value if isinstance(value, str) else json.dumps(value)
        yield rows.PropertyRow(name=name, value=text)


def _integrity_rows(path: str, content: bytes) -> Iterator[Row]:
    known = parse_integrity(path, content)
    values: dict[str, object] = {
        "topic_id": None if known.topic_id is None else uuid_text(known.topic_id),
        "partition": known.partition,
        "gapless_from": known.gapless_from,
        "gap_checkpoint": known.gap_checkpoint,
        "aborts_are_indexed": known.aborts_are_indexed,
        "start_offset": known.start_offset,
        "segments": len(known.segments),
    }
    for name, value in values.items():
        yield rows.PropertyRow(name=name, value="unknown" if value is None else str(value))


def _copy_rows(path: str, content: bytes) -> Iterator[Row]:
    """The rows of Ottla's copy of a file, as those of the original."""
    is_of_starts = base_name(path) == filenames.COPIED_LOG_STARTS
    rows_of = _checkpoint_rows if is_of_starts else _property_rows
    yield from rows_of(path, without_checksum(path, content))


CONTENT_ROWS: dict[Role, Callable[[str, bytes], Iterator[Row]]] = {
    Role.OFFSET_INDEX: _offset_index_rows,
    Role.TIME_INDEX: _time_index_rows,
    Role.TRANSACTION_INDEX: _transaction_index_rows,
    Role.PRODUCER_SNAPSHOT: _snapshot_rows,
    Role.LEADER_EPOCHS: _epoch_rows,
    Role.OFFSET_CHECKPOINT: _checkpoint_rows,
    Role.META_PROPERTIES: _property_rows,
    Role.PARTITION_METADATA: _property_rows,
    Role.CLEAN_SHUTDOWN: _json_rows,
    Role.QUORUM_STATE: _json_rows,
    Role.INTEGRITY: _integrity_rows,
    Role.OTTLA_COPY: _copy_rows,
    Role.OTTLA_OWNER: _property_rows,
    Role.OTTLA_SNAPSHOT: _property_rows,
}
