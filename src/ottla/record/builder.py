"""Writes one v2 batch from records.

Format page: docs/format/record-batch.md. Kafka's counterpart: `MemoryRecordsBuilder`.
"""

import struct
from collections.abc import Sequence
from dataclasses import KW_ONLY, field

from ottla.base.arguments import MAX_TIME_MS, MIN_TIME_MS, check_record, check_time
from ottla.base.errors import UserError
from ottla.base.files import Buffer
from ottla.base.values import dataclass
from ottla.codec.compression import Compression, compress
from ottla.codec.crc32c import crc32c
from ottla.codec.varint import write_varint, write_varlong
from ottla.record.batch import (
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    LOG_APPEND_TIME_BIT,
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TRANSACTIONAL_BIT,
    RecordBatch,
    TimestampType,
)
from ottla.record.layout import (
    ATTRIBUTES_POSITION,
    BEFORE_CHECKED,
    CHECKED,
    CRC,
    CRC_POSITION,
    HEADER,
    HEADER_SIZE,
    LENGTH_END,
)

Headers = Sequence[tuple[str, bytes | None]]

MAX_RECORD_OVERHEAD = 21
"""The most bytes of a record besides key, value and headers (Kafka: `MAX_RECORD_OVERHEAD`)."""

_NULL = b"\x01"
"""The length of a null: -1 in zigzag."""


@dataclass(slots=True)
class RecordBatchBuilder:
    """Collects records for one batch, which `build` returns. Offsets count from `base_offset`.

    With `append_time_ms` all records have this LogAppendTime. With `delete_horizon_ms` the batch
    has this delete horizon, in the field of the base timestamp.

    >>> builder = ottla.RecordBatchBuilder()
    >>> builder.append(b"table 1", b"tea", 1_767_225_600_000)
    0
    >>> log.append_batch("orders", 0, builder)
    3
    """

    base_offset: int = 0
    _: KW_ONLY
    compression: Compression = Compression.NONE
    compression_level: int | None = None
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH
    base_sequence: int = NO_SEQUENCE
    is_transactional: bool = False
    is_control: bool = False
    leader_epoch: int = NO_LEADER_EPOCH
    append_time_ms: int | None = None
    delete_horizon_ms: int | None = None
    record_count: int = field(default=0, init=False)
    _records: bytearray = field(default_factory=bytearray, init=False)
    _packed: Buffer = field(default=b"", init=False)
    _base_timestamp_ms: int | None = field(default=None, init=False)
    _max_timestamp_ms: int = field(default=NO_TIMESTAMP, init=False)
    _next_offset: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self._base_timestamp_ms = self.delete_horizon_ms
        self._next_offset = self.base_offset

    @property
    def size_estimate(self) -> int:
        """The size of the batch so far in bytes, before compression.

        >>> ottla.RecordBatchBuilder().size_estimate
        61
        """
        return HEADER_SIZE + len(self._packed) + len(self._records)

    def append(
        self,
        key: bytes | None,
        value: bytes | None,
        timestamp_ms: int,
        headers: Headers = (),
    ) -> int:
        """Adds a record at the next offset; returns that offset.

        >>> builder = ottla.RecordBatchBuilder()
        >>> builder.append(None, b"tea", 1_767_225_600_000, [("waiter", b"Eva")])
        0
        """
        return self.append_at(self._next_offset, key, value, timestamp_ms, headers)

    def append_at(
        self,
        offset: int,
        key: bytes | None,
        value: bytes | None,
        timestamp_ms: int,
        headers: Headers = (),
    ) -> int:
        """Adds a record at a given offset, which must be after the last one; returns that offset.

        Raises `UserError` for what a record cannot hold; the batch stays as it was.

        >>> builder = ottla.RecordBatchBuilder(base_offset=10)
        >>> builder.append_at(12, None, b"tea", 1_767_225_600_000)
        12
        """
        assert offset >= self._next_offset
        if type(timestamp_ms) is not int or not MIN_TIME_MS <= timestamp_ms <= MAX_TIME_MS:
            timestamp_ms = check_time(timestamp_ms)
        base_ms = timestamp_ms if self._base_timestamp_ms is None else self._base_timestamp_ms
        if not MIN_TIME_MS <= timestamp_ms - base_ms <= MAX_TIME_MS:
            raise UserError(
                f"{timestamp_ms} and {base_ms} are too far apart for times of one batch"
            )
        body = bytearray(b"\0")
        write_varlong(body, timestamp_ms - base_ms)
        write_varint(body, offset - self.base_offset)
        try:
            _write_bytes(body, key)
            _write_bytes(body, value)
            body += _packed_headers(headers) if headers else b"\0"
        except (TypeError, ValueError) as error:
            check_record(key, value, timestamp_ms, headers)
            raise UserError(f"not a record: {error}") from error
        self._base_timestamp_ms = base_ms
        write_varint(self._records, len(body))
        self._records += body
        self._max_timestamp_ms = max(self._max_timestamp_ms, timestamp_ms)
        self._next_offset = offset + 1
        self.record_count += 1
        return offset

    def append_packed(
        self, records: Buffer, count: int, *, base_timestamp_ms: int, max_timestamp_ms: int
    ) -> None:
        """Adds `count` encoded records as the first ones of the batch.

        Their deltas count from `base_offset` and `base_timestamp_ms`. The bytes are copied by
        `build`, which needs `last_offset` then.

        >>> builder = ottla.RecordBatchBuilder()
        >>> record = bytes([18, 0, 0, 0, 1, 6, 116, 101, 97, 0])  # docs/format/record-batch.md
        >>> builder.append_packed(record, 1, base_timestamp_ms=0, max_timestamp_ms=0)
        >>> log.append_built("orders", 0, builder.build(last_offset=0))
        3
        """
        assert not self.record_count
        self._base_timestamp_ms = base_timestamp_ms
        self._packed = records
        self._max_timestamp_ms = max_timestamp_ms
        self.record_count = count

    def build(self, *, last_offset: int | None = None) -> bytes:
        """Builds the batch; `last_offset` may be later than the last record's, after compaction.

        >>> builder = ottla.RecordBatchBuilder()
        >>> builder.append(None, b"tea", 1_767_225_600_000)
        0
        >>> len(builder.build())
        71
        """
        return bytes(self.build_writable(last_offset=last_offset))

    def build_writable(
        self, *, last_offset: int | None = None, memory: bytearray | None = None
    ) -> bytearray | memoryview:
        """As `build`, but writable, so that a log can patch its offsets.

        The result is in `memory` if that is large enough: reused memory costs no page faults.

        >>> builder = ottla.RecordBatchBuilder()
        >>> builder.append(None, b"tea", 1_767_225_600_000)
        0
        >>> len(builder.build_writable())
        71
        """
        last = self._next_offset - 1 if last_offset is None else last_offset
        assert last >= self.base_offset, "a batch covers at least one offset"
        payload: Buffer = self._packed or self._records
        if self._packed and self._records:
            payload = b"".join((self._packed, self._records))
        payload = compress(self.compression, payload, self.compression_level)
        header = HEADER.pack(
            self.base_offset,
            HEADER_SIZE - LENGTH_END + len(payload),
            self.leader_epoch,
            2,
            0,
            self._attributes(),
            last - self.base_offset,
            NO_TIMESTAMP if self._base_timestamp_ms is None else self._base_timestamp_ms,
            self._max_timestamp_ms if self.append_time_ms is None else self.append_time_ms,
            self.producer_id,
            self.producer_epoch,
            self.base_sequence,
            self.record_count,
        )
        batch = _joined(header, payload, memory)
        CRC.pack_into(batch, CRC_POSITION, crc32c(memoryview(batch)[ATTRIBUTES_POSITION:]))
        return batch

    def _attributes(self) -> int:
        attributes = int(self.compression)
        attributes |= LOG_APPEND_TIME_BIT if self.append_time_ms is not None else 0
        attributes |= TRANSACTIONAL_BIT if self.is_transactional else 0
        attributes |= CONTROL_BIT if self.is_control else 0
        attributes |= DELETE_HORIZON_BIT if self.delete_horizon_ms is not None else 0
        return attributes


class PackedRecords:
    """Encoded records of one batch, whose place in a log and time are not known yet: they can be
    gathered in parts, and then the batch is made at once.
    """

    def __init__(self) -> None:
        self._builder = RecordBatchBuilder()

    def __len__(self) -> int:
        """The number of records."""
        return self._builder.record_count

    @property
    def size(self) -> int:
        """The bytes of the batch."""
        return self._builder.size_estimate

    def append(self, value: bytes) -> None:
        self._builder.append(None, value, 0)

    def batch(self, base_offset: int, *, leader_epoch: int, timestamp_ms: int) -> bytes:
        """The batch, all of whose records have this time."""
        builder = RecordBatchBuilder(base_offset, leader_epoch=leader_epoch)
        builder.append_packed(
            self._builder._records,
            len(self),
            base_timestamp_ms=timestamp_ms,
            max_timestamp_ms=timestamp_ms,
        )
        return builder.build(last_offset=base_offset + len(self) - 1)


def _joined(header: bytes, payload: Buffer, memory: bytearray | None) -> bytearray | memoryview:
    size = len(header) + len(payload)
    if memory is None or size > len(memory):
        return bytearray().join((header, payload))
    batch = memoryview(memory)[:size]
    batch[: len(header)] = header
    batch[len(header) :] = memoryview(payload).cast("B")
    return batch


def single_record_batch(
    key: bytes | None, value: bytes | None, timestamp_ms: int, headers: Headers = ()
) -> bytearray:
    """The batch of one record, as `RecordBatchBuilder` builds it, in a third of the time.

    Raises `TypeError` and `ValueError` for values that a record cannot hold.
    """
    tail = _packed_headers(headers) if headers else b"\0"
    if key is not None and type(key) is not bytes:
        key = _flat(key)
    if value is not None and type(value) is not bytes:
        value = _flat(value)
    key_part = _NULL if key is None else _varint(len(key)) + key
    value_size = _NULL if value is None else _varint(len(value))
    value = value or b""
    size = _varint(3 + len(key_part) + len(value_size) + len(value) + len(tail))
    largest_ms = timestamp_ms if timestamp_ms > NO_TIMESTAMP else NO_TIMESTAMP
    try:
        header = CHECKED.pack(
            0, 0, timestamp_ms, largest_ms, NO_PRODUCER_ID, NO_PRODUCER_EPOCH, NO_SEQUENCE, 1
        )
    except struct.error as error:
        raise ValueError(f"{timestamp_ms} is not a timestamp") from error
    # Attributes and both deltas of the record are 0.
    checked = b"".join((header, size, b"\0\0\0", key_part, value_size, value, tail))
    length = BEFORE_CHECKED.size - LENGTH_END + len(checked)
    batch = bytearray(BEFORE_CHECKED.pack(0, length, NO_LEADER_EPOCH, 2, crc32c(checked)))
    batch += checked
    return batch


def _packed_headers(headers: Headers) -> bytes:
    packed = bytearray()
    write_varint(packed, len(headers))
    for name, content in headers:
        _write_bytes(packed, str.encode(name))
        _write_bytes(packed, content)
    return bytes(packed)


def _varint(size: int) -> bytes:
    if size < 0x40:
        return bytes((size << 1,))
    if size < 0x2000:  # two bytes, the common case
        return bytes((size << 1 & 0x7F | 0x80, size >> 6))
    out = bytearray()
    write_varint(out, size)
    return bytes(out)


def builder_like(
    batch: RecordBatch,
    *,
    compression: Compression = Compression.NONE,
    delete_horizon_ms: int | None = None,
) -> RecordBatchBuilder:
    """A builder for a batch that replaces another, with its offset, producer, times and epoch."""
    is_append_time = batch.timestamp_type is TimestampType.LOG_APPEND_TIME
    return RecordBatchBuilder(
        batch.base_offset,
        compression=compression,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
        is_transactional=batch.is_transactional,
        is_control=batch.is_control,
        leader_epoch=batch.partition_leader_epoch,
        append_time_ms=batch.max_timestamp_ms if is_append_time else None,
        delete_horizon_ms=delete_horizon_ms,
    )


def build_empty_batch(batch: RecordBatch) -> bytes:
    """A batch with the header of another and no records.

    Compaction keeps such a batch for the producer's last sequence number, or the end of its
    transaction (Kafka: `DefaultRecordBatch.writeEmptyHeader`).
    """
    builder = builder_like(batch)
    builder._max_timestamp_ms = batch.max_timestamp_ms
    return builder.build(last_offset=batch.last_offset)


def _write_bytes(out: bytearray, value: bytes | None) -> None:
    if value is None:
        write_varint(out, -1)
        return
    if type(value) is not bytes:
        value = _flat(value)
    write_varint(out, len(value))
    out += value


def _flat(content: Buffer) -> bytes:
    """The bytes of a view, whose `len` may not be in bytes.

    Raises `TypeError` for other objects, even with a buffer: `numpy.int64(5)` has one, too.
    """
    if not isinstance(content, Buffer):
        raise TypeError(f"bytes are needed, not {type(content).__name__}")
    return bytes(memoryview(content))
