"""Single records, for the edges: the log itself works by batch and never comes here.

Format pages: docs/format/record-batch.md and docs/format/message-set.md. Kafka's counterpart:
`DefaultRecord`.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from ottla.base.files import Buffer
from ottla.codec.compression import DEFAULT_LIMIT, CompressionError, decompress
from ottla.codec.varint import VarintError, read_varint, read_varlong
from ottla.record.batch import (
    NO_LEADER_EPOCH,
    NO_TIMESTAMP,
    Batch,
    InvalidBatchError,
    RecordBatch,
    TimestampType,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One record. `timestamp_type` is `None`, and `timestamp_ms` -1, in message format v0."""

    offset: int
    timestamp_ms: int = NO_TIMESTAMP
    timestamp_type: TimestampType | None = TimestampType.CREATE_TIME
    key: bytes | None = None
    value: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    leader_epoch: int = NO_LEADER_EPOCH


def read_records(batch: Batch, *, limit: int = DEFAULT_LIMIT) -> Iterator[Record]:
    """The records of a batch of any format; control records are records too.

    `limit` bounds what the batch may unpack to. Raises `InvalidBatchError`.
    """
    if isinstance(batch, RecordBatch):
        return _read_v2(batch, limit)
    from ottla.record.legacy import read_legacy_records

    return read_legacy_records(batch, limit)


def unpacked_payload(batch: RecordBatch, limit: int = DEFAULT_LIMIT) -> Buffer:
    """The records of a v2 batch unpacked; raises `InvalidBatchError`."""
    try:
        return decompress(batch.compression, batch.payload, limit)
    except CompressionError as error:
        raise InvalidBatchError(str(error)) from error


def _read_v2(batch: RecordBatch, limit: int) -> Iterator[Record]:
    data = bytes(unpacked_payload(batch, limit))
    append_time_ms = None
    if batch.timestamp_type is TimestampType.LOG_APPEND_TIME:
        append_time_ms = batch.max_timestamp_ms
    position = 0
    try:
        for _ in range(batch.record_count):
            size, start = read_varint(data, position)
            position = start + size
            if size < 0 or position > len(data):
                raise InvalidBatchError("a record is cut short")
            yield _read_record(batch, data, start, position, append_time_ms)
    except (VarintError, IndexError, UnicodeDecodeError) as error:
        raise InvalidBatchError(f"a record is garbled: {error}") from error
    if position != len(data):
        raise InvalidBatchError(f"{len(data) - position} bytes follow the last record")


def _read_record(
    batch: RecordBatch, data: bytes, position: int, end: int, append_time_ms: int | None
) -> Record:
    delta_ms, position = read_varlong(data, position + 1)
    offset_delta, position = read_varint(data, position)
    key, position = _read_bytes(data, position, end)
    value, position = _read_bytes(data, position, end)
    header_count, position = read_varint(data, position)
    headers: tuple[tuple[str, bytes | None], ...] = ()
    if header_count:
        headers, position = _read_headers(data, position, end, header_count)
    if position != end:
        raise InvalidBatchError("a record's size and content disagree")
    return Record(
        offset=batch.base_offset + offset_delta,
        timestamp_ms=batch.base_timestamp_ms + delta_ms
        if append_time_ms is None
        else append_time_ms,
        timestamp_type=batch.timestamp_type,
        key=key,
        value=value,
        headers=headers,
        leader_epoch=batch.partition_leader_epoch,
    )


def _read_bytes(data: bytes, position: int, end: int) -> tuple[bytes | None, int]:
    size, position = read_varint(data, position)
    if size < 0:
        return None, position
    if position + size > end:
        raise InvalidBatchError("a key, value or header is cut short")
    return data[position : position + size], position + size


def _read_headers(
    data: bytes, position: int, end: int, count: int
) -> tuple[tuple[tuple[str, bytes | None], ...], int]:
    if not 0 <= count <= end - position:
        raise InvalidBatchError(f"{count} headers are stated")
    headers = []
    for _ in range(count):
        name, position = _read_bytes(data, position, end)
        if name is None:
            raise InvalidBatchError("a header has no name")
        value, position = _read_bytes(data, position, end)
        headers.append((name.decode(), value))
    return tuple(headers), position
