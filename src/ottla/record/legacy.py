"""Message formats v0 and v1: single messages, and wrappers that hold a compressed message set.

Format page: docs/format/message-set.md. Kafka's counterpart: `AbstractLegacyRecordBatch`.
"""

import struct
import zlib
from collections.abc import Iterator

from ottla.base.files import Buffer
from ottla.codec.compression import DEFAULT_LIMIT, Compression, compress, decompress
from ottla.codec.frames import CompressionError, with_old_lz4_checksum
from ottla.record.batch import (
    CODEC_MASK,
    LOG_APPEND_TIME_BIT,
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    Batch,
    InvalidBatchError,
    TimestampType,
)
from ottla.record.record import Record

ENTRY = struct.Struct(
    ">"
    "q"  # offset
    "i"  # size of the message after this field
    "I"  # CRC-32 of everything after this field
    "b"  # magic
    "b"  # attributes
)
assert ENTRY.size == 18
ENTRY_HEAD = struct.Struct(">qi")  # offset, size
TIMESTAMP = struct.Struct(">q")
LENGTH = struct.Struct(">i")

OFFSET = struct.Struct(">q")
CRC = struct.Struct(">I")
ATTRIBUTES = struct.Struct(">b")

ENTRY_OVERHEAD = 12
CRC_POSITION = 12
CRC_END = 16
ATTRIBUTES_POSITION = 17
MIN_MESSAGE_SIZE = {0: 14, 1: 22}


class LegacyBatch:
    """A view of one log entry of format v0 or v1, with the properties of a batch.

    Raises `InvalidBatchError` for an invalid header.
    """

    __slots__ = (
        "attributes",
        "buffer",
        "crc",
        "last_offset",
        "magic",
        "max_timestamp_ms",
        "position",
        "size",
    )
    max_timestamp_ms: int

    last_offset: int
    crc: int
    magic: int
    attributes: int
    partition_leader_epoch = NO_LEADER_EPOCH
    producer_id = NO_PRODUCER_ID
    producer_epoch = NO_PRODUCER_EPOCH
    base_sequence = NO_SEQUENCE
    last_sequence = NO_SEQUENCE
    is_transactional = False
    is_control = False
    has_delete_horizon = False

    def __init__(self, buffer: Buffer, position: int = 0) -> None:
        self.buffer = buffer
        self.position = position
        try:
            self.last_offset, size, self.crc, self.magic, self.attributes = ENTRY.unpack_from(
                buffer, position
            )
            # A wrapper has the largest timestamp of its messages; v0 has no timestamps.
            self.max_timestamp_ms = (
                TIMESTAMP.unpack_from(buffer, position + ENTRY.size)[0]
                if self.magic
                else NO_TIMESTAMP
            )
        except struct.error as error:
            raise InvalidBatchError("the header is cut short") from error
        if self.magic not in MIN_MESSAGE_SIZE:
            raise InvalidBatchError(f"unknown magic {self.magic}")
        if size < MIN_MESSAGE_SIZE[self.magic]:
            raise InvalidBatchError(f"a size of {size} bytes is less than a message")
        self.size = size + ENTRY_OVERHEAD

    @property
    def base_offset(self) -> int:
        """The offset of the first message, for which a wrapper must be decompressed."""
        if self.compression is Compression.NONE:
            return self.last_offset
        return next(read_legacy_records(self)).offset

    @property
    def next_offset(self) -> int:
        offset: int = self.last_offset
        return offset + 1

    @property
    def last_offset_delta(self) -> int:
        return self.last_offset - self.base_offset

    @property
    def record_count(self) -> int:
        if self.compression is Compression.NONE:
            return 1
        return sum(1 for _ in read_legacy_records(self))

    @property
    def compression(self) -> Compression:
        number = self.attributes & CODEC_MASK
        if number > Compression.LZ4:
            raise InvalidBatchError(f"unknown codec {number} in format v{self.magic}")
        return Compression(number)

    @property
    def timestamp_type(self) -> TimestampType | None:
        if self.magic == 0:
            return None
        if self.attributes & LOG_APPEND_TIME_BIT:
            return TimestampType.LOG_APPEND_TIME
        return TimestampType.CREATE_TIME

    @property
    def payload(self) -> memoryview:
        """The message from the length of its key on."""
        start = self.position + ENTRY.size + (TIMESTAMP.size if self.magic else 0)
        return memoryview(self.buffer)[start : self.position + self.size]

    def bytes_view(self) -> memoryview:
        """The whole entry."""
        return memoryview(self.buffer)[self.position : self.position + self.size]

    def stamp(self, last_offset: int) -> None:
        """Writes the offset into the buffer; the CRC does not cover it."""
        OFFSET.pack_into(self.buffer, self.position, last_offset)
        self.last_offset = last_offset

    def stamp_time(self, timestamp_ms: int, *, is_append_time: bool) -> None:
        """Writes the timestamp and timestamp type of a v1 entry, and the new CRC."""
        assert self.magic == 1, "v0 has no timestamp"
        is_same_kind = bool(self.attributes & LOG_APPEND_TIME_BIT) is is_append_time
        if is_same_kind and self.max_timestamp_ms == timestamp_ms:
            return
        kind = LOG_APPEND_TIME_BIT if is_append_time else 0
        self.attributes = self.attributes & CODEC_MASK | kind
        self.max_timestamp_ms = timestamp_ms
        start = self.position
        ATTRIBUTES.pack_into(self.buffer, start + ATTRIBUTES_POSITION, self.attributes)
        TIMESTAMP.pack_into(self.buffer, start + ENTRY.size, timestamp_ms)
        self.crc = zlib.crc32(memoryview(self.buffer)[start + CRC_END : start + self.size])
        CRC.pack_into(self.buffer, start + CRC_POSITION, self.crc)

    def key_and_value(self) -> tuple[bytes | None, bytes | None]:
        payload = self.payload
        key, position = _read_bytes(payload, 0)
        value, position = _read_bytes(payload, position)
        if position != len(payload):
            raise InvalidBatchError("a message's size and content disagree")
        return key, value

    @property
    def has_plain_nulls(self) -> bool:
        """Whether null keys and values have the size -1, the only one that some clients accept."""
        payload = self.payload
        (key_size,) = LENGTH.unpack_from(payload)
        (value_size,) = LENGTH.unpack_from(payload, LENGTH.size + max(key_size, 0))
        is_plain: bool = min(key_size, value_size) >= -1
        return is_plain

    def check(self) -> None:
        if self.position + self.size > len(self.buffer):
            raise InvalidBatchError(f"cut short: {self.size} bytes expected")
        view = memoryview(self.buffer)[self.position + CRC_END : self.position + self.size]
        found = zlib.crc32(view)
        if found != self.crc:
            raise InvalidBatchError(
                f"CRC mismatch: header {self.crc:#010x}, computed {found:#010x}"
            )
        _ = self.compression


def read_legacy_records(batch: Batch, limit: int = DEFAULT_LIMIT) -> Iterator[Record]:
    """The messages of an entry, or of all in a wrapper; raises `InvalidBatchError`.

    `limit` is the largest decompressed size in bytes.
    """
    assert isinstance(batch, LegacyBatch)
    if batch.compression is Compression.NONE:
        yield _record(batch, batch.last_offset, batch.timestamp_type, batch.max_timestamp_ms)
        return
    inner = list(inner_messages(batch, limit))
    base_offset = _inner_base_offset(batch, inner[-1])
    for one in inner:
        # The wrapper decides the timestamp type, and with LogAppendTime also the timestamp.
        timestamp_type = batch.timestamp_type if one.magic else None
        is_append_time = timestamp_type is TimestampType.LOG_APPEND_TIME
        timestamp_ms = batch.max_timestamp_ms if is_append_time else one.max_timestamp_ms
        yield _record(one, base_offset + one.last_offset, timestamp_type, timestamp_ms)


def _inner_base_offset(wrapper: LegacyBatch, last: LegacyBatch) -> int:
    """The number to add to the inner offsets (Kafka: `DeepRecordsIterator`)."""
    # v0 stores absolute offsets. v1 counts from 0, and the wrapper has the absolute offset of the
    # last message; the difference is 0 for clients that store absolute offsets. Old librdkafka
    # sends wrappers at offset 0, whose messages have the right offsets.
    if wrapper.magic == 0 or wrapper.last_offset == 0:
        return 0
    if wrapper.last_offset < last.last_offset:
        raise InvalidBatchError(
            f"a wrapper at offset {wrapper.last_offset} ends with a message at {last.last_offset}"
        )
    return wrapper.last_offset - last.last_offset


def inner_messages(wrapper: LegacyBatch, limit: int = DEFAULT_LIMIT) -> Iterator[LegacyBatch]:
    """The messages in a wrapper as stored, with CRCs checked; raises `InvalidBatchError`.

    A last message that is cut short is left out (Kafka: `DataLogInputStream`).
    """
    _, value = wrapper.key_and_value()
    if value is None:
        raise InvalidBatchError("a compressed wrapper has no value")
    try:
        data = decompress(wrapper.compression, value, limit, is_v0=wrapper.magic == 0)
    except CompressionError as error:
        raise InvalidBatchError(str(error)) from error
    position = 0
    if not _is_whole_message(data, position):
        raise InvalidBatchError("a compressed wrapper holds no message")
    while _is_whole_message(data, position):
        inner = LegacyBatch(data, position)
        inner.check()
        if inner.compression is not Compression.NONE:
            raise InvalidBatchError("a wrapper holds a wrapper")
        yield inner
        position += inner.size


def _is_whole_message(data: Buffer, position: int) -> bool:
    start = position + ENTRY_HEAD.size
    if start > len(data):
        return False
    _, size = ENTRY_HEAD.unpack_from(data, position)
    return start + int(size) <= len(data)


def _record(
    message: LegacyBatch, offset: int, timestamp_type: TimestampType | None, timestamp_ms: int
) -> Record:
    key, value = message.key_and_value()
    return Record(
        offset=offset,
        timestamp_ms=timestamp_ms,
        timestamp_type=timestamp_type,
        key=key,
        value=value,
    )


def _read_bytes(payload: memoryview, position: int) -> tuple[bytes | None, int]:
    try:
        (size,) = LENGTH.unpack_from(payload, position)
    except struct.error as error:
        raise InvalidBatchError("a message is cut short") from error
    position += LENGTH.size
    if size < 0:
        return None, position
    if position + size > len(payload):
        raise InvalidBatchError("a message's key or value is cut short")
    return bytes(payload[position : position + size]), position + size


def build_message(
    key: Buffer | None,
    value: Buffer | None,
    *,
    magic: int,
    offset: int = 0,
    timestamp_ms: int = NO_TIMESTAMP,
    attributes: int = 0,
) -> bytes:
    """One entry of format v0 or v1; `attributes` holds codec and timestamp type."""
    assert magic in MIN_MESSAGE_SIZE
    body = bytearray(struct.pack(">bb", magic, attributes))
    if magic:
        body += TIMESTAMP.pack(timestamp_ms)
    for part in (key, value):
        body += LENGTH.pack(-1 if part is None else len(part))
        body += part or b""
    crc = zlib.crc32(body)
    return struct.pack(">qiI", offset, len(body) + 4, crc) + bytes(body)


def pack_messages(
    messages: Buffer, magic: int, compression: Compression, level: int | None = None
) -> Buffer:
    """The value of a wrapper: a compressed message set. `level` is the codec's own."""
    assert compression is not Compression.NONE
    packed = compress(compression, messages, level)
    if magic == 0 and compression is Compression.LZ4:
        packed = with_old_lz4_checksum(packed)
    return packed
