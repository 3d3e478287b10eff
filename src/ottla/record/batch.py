"""A view of a v2 record batch by its 61-byte header, without decoding its records.

Format page: docs/format/record-batch.md. Kafka's counterpart: `DefaultRecordBatch`.

For the older formats, `batch_at` returns a view with the same properties, so that storage handles
all formats alike. The CRC does not cover base offset and leader epoch, which can be patched in
place.
"""

import struct
from collections.abc import Callable, Iterator
from enum import Enum
from typing import Final, Protocol

from ottla.base.errors import OttlaError
from ottla.base.files import Buffer
from ottla.codec.compression import Compression
from ottla.codec.crc32c import crc32c
from ottla.record.layout import (
    ATTRIBUTES,
    ATTRIBUTES_POSITION,
    CRC,
    CRC_POSITION,
    HEADER,
    HEADER_SIZE,
    LENGTH_END,
    MAGIC_POSITION,
    MAX_TIMESTAMP_POSITION,
    OFFSET_AND_LENGTH,
    PLACE,
    TIMESTAMP,
)

MIN_LEGACY_SIZE: Final = 26
MAX_SEQUENCE = 2**31 - 1

CODEC_MASK: Final = 0x07
LOG_APPEND_TIME_BIT: Final = 0x08
TRANSACTIONAL_BIT: Final = 0x10
CONTROL_BIT: Final = 0x20
DELETE_HORIZON_BIT: Final = 0x40

COMPRESSIONS = tuple(Compression)
"""The codecs by number, since a lookup by an enum's value takes longer than reading a header."""

NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_SEQUENCE: Final = -1
NO_TIMESTAMP: Final = -1
NO_LEADER_EPOCH: Final = -1


class InvalidBatchError(OttlaError):
    """Bytes that are not a valid batch or record; the message says why."""


class TimestampType(Enum):
    """Whether a record's timestamp is the producer's or the broker's."""

    CREATE_TIME = 0
    LOG_APPEND_TIME = 1

    @property
    def kafka_name(self) -> str:
        return "CreateTime" if self is TimestampType.CREATE_TIME else "LogAppendTime"


class Batch(Protocol):
    """A batch of any format. `size` is the number of all its bytes, with offset and length."""

    @property
    def base_offset(self) -> int: ...
    @property
    def last_offset(self) -> int: ...
    @property
    def next_offset(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def magic(self) -> int: ...
    @property
    def attributes(self) -> int: ...
    @property
    def crc(self) -> int: ...
    @property
    def partition_leader_epoch(self) -> int: ...
    @property
    def last_offset_delta(self) -> int: ...
    @property
    def max_timestamp_ms(self) -> int: ...
    @property
    def producer_id(self) -> int: ...
    @property
    def producer_epoch(self) -> int: ...
    @property
    def base_sequence(self) -> int: ...
    @property
    def last_sequence(self) -> int: ...
    @property
    def record_count(self) -> int: ...
    @property
    def compression(self) -> Compression: ...
    @property
    def timestamp_type(self) -> TimestampType | None: ...
    @property
    def is_transactional(self) -> bool: ...
    @property
    def is_control(self) -> bool: ...
    @property
    def has_delete_horizon(self) -> bool: ...
    @property
    def payload(self) -> memoryview: ...

    def bytes_view(self) -> memoryview:
        """The whole batch."""

    def check(self) -> None:
        """Raises `InvalidBatchError` unless the batch is complete and its CRC is right."""


class RecordBatch:
    """A view of a v2 batch in a buffer, which must hold the header, and the rest for `payload`.

    Raises `InvalidBatchError` for an invalid header.
    """

    __slots__ = (
        "attributes",
        "base_offset",
        "base_sequence",
        "base_timestamp_ms",
        "buffer",
        "crc",
        "last_offset_delta",
        "magic",
        "max_timestamp_ms",
        "partition_leader_epoch",
        "position",
        "producer_epoch",
        "producer_id",
        "record_count",
        "size",
    )
    base_offset: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp_ms: int
    max_timestamp_ms: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    def __init__(self, buffer: Buffer, position: int = 0) -> None:
        self.buffer = buffer
        self.position = position
        try:
            (
                self.base_offset,
                length,
                self.partition_leader_epoch,
                self.magic,
                self.crc,
                self.attributes,
                self.last_offset_delta,
                self.base_timestamp_ms,
                self.max_timestamp_ms,
                self.producer_id,
                self.producer_epoch,
                self.base_sequence,
                self.record_count,
            ) = HEADER.unpack_from(buffer, position)
        except struct.error as error:
            raise InvalidBatchError("the header is cut short") from error
        self.size = length + LENGTH_END
        if self.magic != 2:
            raise InvalidBatchError(f"magic {self.magic} instead of 2")
        if self.size < HEADER_SIZE:
            raise InvalidBatchError(f"a size of {self.size} bytes is less than a header")
        if self.last_offset_delta < 0:
            raise InvalidBatchError(f"a last offset delta of {self.last_offset_delta}")

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def compression(self) -> Compression:
        number = self.attributes & CODEC_MASK
        if number >= len(COMPRESSIONS):
            raise InvalidBatchError(f"unknown codec {number}")
        return COMPRESSIONS[number]

    @property
    def timestamp_type(self) -> TimestampType:
        if self.attributes & LOG_APPEND_TIME_BIT:
            return TimestampType.LOG_APPEND_TIME
        return TimestampType.CREATE_TIME

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL_BIT)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL_BIT)

    @property
    def has_delete_horizon(self) -> bool:
        """Whether compaction has set the time at which tombstones and markers may be removed."""
        return bool(self.attributes & DELETE_HORIZON_BIT)

    @property
    def last_sequence(self) -> int:
        """The last sequence number, which wraps to 0 after `MAX_SEQUENCE`; -1 without one."""
        if self.base_sequence < 0:
            return NO_SEQUENCE
        return (self.base_sequence + self.last_offset_delta) & MAX_SEQUENCE

    @property
    def payload(self) -> memoryview:
        """The records as stored, compressed or not."""
        start = self.position + HEADER_SIZE
        return memoryview(self.buffer)[start : self.position + self.size]

    def bytes_view(self) -> memoryview:
        """The whole batch."""
        return memoryview(self.buffer)[self.position : self.position + self.size]

    def stamp(self, base_offset: int, leader_epoch: int) -> None:
        """Writes base offset and leader epoch into the buffer; the CRC covers neither."""
        length = self.size - LENGTH_END
        PLACE.pack_into(self.buffer, self.position, base_offset, length, leader_epoch)
        self.base_offset = base_offset
        self.partition_leader_epoch = leader_epoch

    def stamp_max_timestamp(self, timestamp_ms: int) -> None:
        """Writes the largest timestamp into the buffer, and the new CRC."""
        self.max_timestamp_ms = timestamp_ms
        TIMESTAMP.pack_into(self.buffer, self.position + MAX_TIMESTAMP_POSITION, timestamp_ms)
        self.crc = self.compute_crc()
        CRC.pack_into(self.buffer, self.position + CRC_POSITION, self.crc)

    def stamp_append_time(self, timestamp_ms: int) -> None:
        """Writes LogAppendTime into the header, which applies to every record, and the new CRC."""
        self.attributes |= LOG_APPEND_TIME_BIT
        ATTRIBUTES.pack_into(self.buffer, self.position + ATTRIBUTES_POSITION, self.attributes)
        self.stamp_max_timestamp(timestamp_ms)

    def compute_crc(self) -> int:
        start = self.position + ATTRIBUTES_POSITION
        return crc32c(memoryview(self.buffer)[start : self.position + self.size])

    def check(self) -> None:
        position, end = self.position, self.position + self.size
        if end > len(self.buffer):
            raise InvalidBatchError(f"cut short: {self.size} bytes expected")
        found = crc32c(memoryview(self.buffer)[position + ATTRIBUTES_POSITION : end])
        if found != self.crc:
            raise InvalidBatchError(
                f"CRC mismatch: header {self.crc:#010x}, computed {found:#010x}"
            )
        if not 0 <= self.record_count <= self.last_offset_delta + 1:
            raise InvalidBatchError(
                f"{self.record_count} records in {self.last_offset_delta + 1} offsets"
            )
        if self.attributes & CODEC_MASK >= len(COMPRESSIONS):
            raise InvalidBatchError(f"unknown codec {self.attributes & CODEC_MASK}")


class BuiltBatch(RecordBatch):
    """A batch that this process has just built, so that nothing has to be checked."""

    __slots__ = ()

    def check(self) -> None:
        """Does nothing."""


def batch_at(buffer: Buffer, position: int = 0) -> Batch:
    """A view of the batch, or entry of an old format, at a position of the buffer.

    Raises `InvalidBatchError` for an incomplete or invalid header.
    """
    if position + MAGIC_POSITION >= len(buffer):
        raise InvalidBatchError("the header is cut short")
    magic = buffer[position + MAGIC_POSITION]
    if magic == 2:
        return RecordBatch(buffer, position)
    if magic > 2:
        raise InvalidBatchError(f"unknown magic {magic}")
    from ottla.record.legacy import LegacyBatch

    return LegacyBatch(buffer, position)


def iter_batches(buffer: Buffer, *, allow_torn_tail: bool = False) -> Iterator[Batch]:
    """The batches in a buffer, in order, unchecked.

    Raises `InvalidBatchError`. With `allow_torn_tail`, an incomplete last batch ends the iteration
    instead.
    """
    position = 0
    end = len(buffer)
    while position < end:
        if allow_torn_tail and not _is_whole(buffer, position):
            return
        batch = batch_at(buffer, position)
        position += batch.size
        if position > end:
            raise InvalidBatchError("the last batch is cut short")
        yield batch


def whole_size(buffer: Buffer) -> int:
    """The number of bytes of the complete batches at the start of a buffer."""
    position = 0
    while _is_whole(buffer, position):
        length: int = OFFSET_AND_LENGTH.unpack_from(buffer, position)[1]
        if length < 0:
            break
        position += length + LENGTH_END
    return position


def _is_whole(buffer: Buffer, position: int) -> bool:
    if position + LENGTH_END > len(buffer):
        return False
    length: int = OFFSET_AND_LENGTH.unpack_from(buffer, position)[1]
    return position + length + LENGTH_END <= len(buffer)


def kept_runs(data: memoryview, is_left_out: Callable[[Batch], bool]) -> Iterator[memoryview]:
    """Views of the runs of consecutive batches that are kept; raises `InvalidBatchError`."""
    start = position = 0
    for batch in iter_batches(data):
        end = position + batch.size
        if is_left_out(batch):
            if position > start:
                yield data[start:position]
            start = end
        position = end
    if position > start:
        yield data[start:position]
