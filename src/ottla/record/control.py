"""Control records, which brokers write into a log, such as transaction markers.

Format page: docs/format/record-batch.md. Kafka's counterparts: `ControlRecordType`,
`EndTransactionMarker` (KIP-98).
"""

import struct
from enum import IntEnum

from ottla.base.values import dataclass
from ottla.record.batch import NO_LEADER_EPOCH, Batch, InvalidBatchError
from ottla.record.builder import RecordBatchBuilder
from ottla.record.record import read_records

KEY = struct.Struct(">hh")  # version, type
assert KEY.size == 4
MARKER_VALUE = struct.Struct(">hi")  # version, coordinator epoch
assert MARKER_VALUE.size == 6


class ControlRecordType(IntEnum):
    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class EndTransactionMarker:
    """A marker that commits or aborts a transaction, with its coordinator's epoch."""

    is_commit: bool
    coordinator_epoch: int


def control_type(key: bytes | None) -> ControlRecordType | None:
    """The type in a control record's key; `None` for unknown types. Raises `InvalidBatchError`."""
    if key is None or len(key) < KEY.size:
        raise InvalidBatchError("a control record's key is cut short")
    kind = KEY.unpack_from(key)[1]
    try:
        return ControlRecordType(kind)
    except ValueError:
        return None


def parse_end_transaction_marker(batch: Batch) -> EndTransactionMarker | None:
    """The marker in a control batch; `None` for another type, or if compaction removed it.

    Raises `InvalidBatchError`.
    """
    record = next(iter(read_records(batch)), None)
    if record is None:
        return None
    kind = control_type(record.key)
    if kind not in (ControlRecordType.ABORT, ControlRecordType.COMMIT):
        return None
    if record.value is None or len(record.value) < MARKER_VALUE.size:
        raise InvalidBatchError("a transaction marker is cut short")
    return EndTransactionMarker(
        is_commit=kind is ControlRecordType.COMMIT,
        coordinator_epoch=MARKER_VALUE.unpack_from(record.value)[1],
    )


def build_end_transaction_marker(
    marker: EndTransactionMarker,
    *,
    producer_id: int,
    producer_epoch: int,
    timestamp_ms: int,
    base_offset: int = 0,
    leader_epoch: int = NO_LEADER_EPOCH,
) -> bytes:
    """A control batch of one marker (Kafka: `MemoryRecords.withEndTransactionMarker`)."""
    kind = ControlRecordType.COMMIT if marker.is_commit else ControlRecordType.ABORT
    builder = RecordBatchBuilder(
        base_offset,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        is_transactional=True,
        is_control=True,
        leader_epoch=leader_epoch,
    )
    builder.append(KEY.pack(0, kind), MARKER_VALUE.pack(0, marker.coordinator_epoch), timestamp_ms)
    return builder.build()
