"""Decodes single records, for clients and tools: the log itself works by batch.

Format pages: docs/format/record-batch.md and docs/format/message-set.md. Kafka's counterpart:
`DefaultRecord`.
"""

from collections.abc import Callable, Iterable, Iterator
from mmap import mmap
from typing import Any

from ottla.base.files import Buffer
from ottla.base.turns import in_turns
from ottla.base.values import dataclass
from ottla.codec.compression import DEFAULT_LIMIT, Compression, decompress
from ottla.codec.frames import CompressionError
from ottla.codec.unpacking import UnpackedMemory
from ottla.codec.varint import VarintError, read_varint, read_varlong
from ottla.record.batch import (
    NO_LEADER_EPOCH,
    NO_TIMESTAMP,
    Batch,
    InvalidBatchError,
    RecordBatch,
    TimestampType,
)

Headers = tuple[tuple[str, bytes | None], ...]
Unpack = Callable[[Compression, Buffer, int], Buffer]
"""`decompress`, or a function with the same result (`codec/unpacking.py`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One record. `timestamp_type` is `None`, and `timestamp_ms` -1, in message format v0.

    >>> record = next(log.read("orders"))
    >>> record.offset, record.key, record.value
    (0, b'table 1', b'tea')
    """

    offset: int
    timestamp_ms: int = NO_TIMESTAMP
    timestamp_type: TimestampType | None = TimestampType.CREATE_TIME
    key: bytes | None = None
    value: bytes | None = None
    headers: Headers = ()
    leader_epoch: int = NO_LEADER_EPOCH


def read_records(
    batch: Batch, *, limit: int = DEFAULT_LIMIT, payload: Buffer | None = None
) -> Iterator[Record]:
    """The records of a batch of any format, control records included.

    `limit` is the largest decompressed size in bytes. `payload` are the decompressed records of a
    v2 batch, if the caller has them. Raises `InvalidBatchError`.
    """
    if isinstance(batch, RecordBatch):
        return _read_v2(batch, limit, payload)
    from ottla.record.legacy import read_legacy_records

    return read_legacy_records(batch, limit)


def records_in_turns(batch: Batch, memory: UnpackedMemory) -> Iterable[Record]:
    """As `read_records`, in turns with other requests; the caller gives `memory` back."""
    payload = None
    if isinstance(batch, RecordBatch) and batch.record_count > 0:
        payload = unpacked_payload(batch, unpack=memory.unpack)
    return in_turns(read_records(batch, payload=payload))


def unpacked_payload(
    batch: RecordBatch, limit: int = DEFAULT_LIMIT, unpack: Unpack = decompress
) -> Buffer:
    """The decompressed records of a v2 batch; raises `InvalidBatchError`."""
    try:
        return unpack(batch.compression, batch.payload, limit)
    except CompressionError as error:
        raise InvalidBatchError(str(error)) from error


MAX_RATIOS = {
    Compression.GZIP: 1032,
    Compression.SNAPPY: 64,
    Compression.LZ4: 256,
    Compression.ZSTD: 1 << 16,
}
"""How many bytes one compressed byte can stand for at most, rounded up."""


def check_unpacked_size(batch: Batch) -> None:
    """Raises `InvalidBatchError` for a v2 batch that decompresses to more than `DEFAULT_LIMIT`.

    Only a batch that is large enough for that is decompressed.
    """
    if isinstance(batch, RecordBatch) and batch.record_count > 0:
        ratio = MAX_RATIOS.get(batch.compression, 0)
        if len(batch.payload) * ratio > DEFAULT_LIMIT:
            unpacked_payload(batch)


def _read_v2(batch: RecordBatch, limit: int, payload: Buffer | None) -> Iterator[Record]:
    if batch.record_count <= 0:
        if batch.record_count < 0:
            raise InvalidBatchError(f"a record count of {batch.record_count}")
        return  # as in Kafka, without decompressing the payload
    unpacked = unpacked_payload(batch, limit) if payload is None else payload
    # A slice of an `mmap` is of type bytes too.
    data: Any = unpacked if isinstance(unpacked, mmap) else bytes(unpacked)
    base_offset, base_timestamp_ms = batch.base_offset, batch.base_timestamp_ms
    timestamp_type, leader_epoch = batch.timestamp_type, batch.partition_leader_epoch
    is_append_time = timestamp_type is TimestampType.LOG_APPEND_TIME
    position = 0
    try:
        for _ in range(batch.record_count):
            # Numbers that usually have one byte are read inline, which saves a third of the time.
            size, position = read_varint(data, position)
            end = position + size
            position += 1  # attributes, which are unused
            timestamp_delta, position = read_varlong(data, position)
            if (byte := data[position]) < 0x80:
                offset_delta = (byte >> 1) ^ -(byte & 1)
                position += 1
            else:
                offset_delta, position = read_varint(data, position)
            key, position = _read_bytes(data, position)
            value, position = _read_bytes(data, position)
            headers: Headers = ()
            if data[position]:
                headers, position = read_headers(data, position)
            else:
                position += 1
            # A wrong size of a field, also beyond the data, leads to another position.
            if position != end:
                raise InvalidBatchError("a record's size and content disagree")
            record = UnfrozenRecord(
                base_offset + offset_delta,
                batch.max_timestamp_ms if is_append_time else base_timestamp_ms + timestamp_delta,
                timestamp_type,
                key,
                value,
                headers,
                leader_epoch,
            )
            record.__class__ = Record  # type: ignore[assignment]
            yield record  # type: ignore[misc]
    except (VarintError, IndexError) as error:
        raise InvalidBatchError(f"a record is garbled: {error}") from error
    if position != len(data):
        raise InvalidBatchError(f"{len(data) - position} bytes follow the last record")


@dataclass(slots=True)
class UnfrozenRecord:
    """A `Record` under construction, which becomes one by a change of its class.

    To create a frozen dataclass takes 0.75 us, this and the change 0.15 us: half of the time to
    read a record.
    """

    offset: int
    timestamp_ms: int
    timestamp_type: TimestampType | None
    key: bytes | None
    value: bytes | None
    headers: Headers
    leader_epoch: int


def _read_bytes(data: bytes, position: int) -> tuple[bytes | None, int]:
    byte = data[position]
    if byte < 0x80:
        start = position + 1
        size = (byte >> 1) ^ -(byte & 1)
    else:
        size, start = read_varint(data, position)
    if size < 0:
        return None, start
    end = start + size
    return data[start:end], end


def read_headers(data: bytes, position: int) -> tuple[Headers, int]:
    count, position = read_varint(data, position)
    if count < 0:
        raise InvalidBatchError(f"a header count of {count}")
    headers = []
    for _ in range(count):
        name, position = _read_bytes(data, position)
        if name is None:
            raise InvalidBatchError("a header has no name")
        value, position = _read_bytes(data, position)
        # Names may not be UTF-8, as from librdkafka's producer; Java's consumer replaces bytes too.
        headers.append((name.decode(errors="replace"), value))
    return tuple(headers), position
