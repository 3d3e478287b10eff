"""The rows of a dump: a class for each kind of content of a log directory's files.

The attributes have the names in Kafka's tools and documents, in snake_case. They are the field
names of `ottla log dump --json`, so they must not change.
"""

from typing import ClassVar

from ottla.base.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of a dump; `TYPE` is the kind of line."""

    TYPE: ClassVar[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRow(Row):
    """The heading of a file, with its kind and size in bytes."""

    TYPE: ClassVar[str] = "file"
    kind: str
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRow(Row):
    """A batch, or an entry of the old formats; fields that a format lacks are `None`.

    `error` is the reason if `is_valid` is false.
    """

    TYPE: ClassVar[str] = "batch"
    position: int
    base_offset: int | None
    last_offset: int
    count: int | None
    size: int
    magic: int
    compression: str | None
    timestamp_type: str | None
    base_timestamp: int | None
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    last_sequence: int
    partition_leader_epoch: int
    is_transactional: bool
    is_control: bool
    delete_horizon_ms: int | None
    crc: int
    is_valid: bool
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordRow(Row):
    """A record inside a batch. Sizes are -1 for null, as in Kafka.

    `control_type` is the name of a control record's type; `coordinator_epoch` is only set for
    COMMIT and ABORT.
    """

    TYPE: ClassVar[str] = "record"
    offset: int
    timestamp: int
    timestamp_type: str | None
    sequence: int
    key_size: int
    value_size: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    control_type: str | None = None
    coordinator_epoch: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetIndexRow(Row):
    TYPE: ClassVar[str] = "offset_index_entry"
    offset: int
    position: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeIndexRow(Row):
    TYPE: ClassVar[str] = "time_index_entry"
    timestamp: int
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortedTransactionRow(Row):
    TYPE: ClassVar[str] = "aborted_transaction"
    version: int
    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerRow(Row):
    """One producer of a snapshot; `current_txn_first_offset` is `None` outside a transaction."""

    TYPE: ClassVar[str] = "producer"
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    current_txn_first_offset: int | None
    last_timestamp: int
    first_sequence: int
    last_sequence: int
    last_offset: int
    offset_delta: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderEpochRow(Row):
    TYPE: ClassVar[str] = "leader_epoch"
    epoch: int
    start_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointRow(Row):
    TYPE: ClassVar[str] = "checkpoint"
    topic: str
    partition: int
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PropertyRow(Row):
    """A name and a value, from a file of properties."""

    TYPE: ClassVar[str] = "property"
    name: str
    value: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FreeRow(Row):
    """Pre-allocated space: zeros after the last entry of an index."""

    TYPE: ClassVar[str] = "free"
    position: int
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DamageRow(Row):
    """Damaged bytes; `size` is `None` if their number is unknown."""

    TYPE: ClassVar[str] = "damage"
    position: int
    size: int | None
    reason: str
