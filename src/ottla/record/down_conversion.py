"""Converts batches for consumers that only support the older formats, magic 0 or 1.

Headers, producer ids and transactions are lost; control records are skipped, which leaves gaps.
Kafka's counterpart: `RecordsUtil.downConvert`, which Kafka 4 has removed.
"""

from collections.abc import Iterable

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.turns import aside, turn_list
from ottla.codec.compression import Compression
from ottla.codec.unpacking import UnpackedMemory
from ottla.record.batch import Batch, TimestampType
from ottla.record.message_set import MessageSetBuilder
from ottla.record.record import records_in_turns


def down_convert(batches: Iterable[Batch], magic: int, from_offset: int) -> bytes:
    """A message set of `magic` with the records from `from_offset` on.

    Batches of that format or an older one are not changed. Raises
    `ApiError(UNSUPPORTED_COMPRESSION_TYPE)` for zstd, which old consumers cannot read, and
    `InvalidBatchError`.
    """
    return b"".join(_converted(batch, magic, from_offset) for batch in batches)


def _converted(batch: Batch, magic: int, from_offset: int) -> bytes:
    if batch.magic <= magic:
        return bytes(batch.bytes_view())
    if batch.is_control:
        return b""
    compression = batch.compression
    if compression is Compression.ZSTD:
        raise ApiError(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            "The log holds zstd batches, which this old consumer cannot read.",
        )
    memory = UnpackedMemory()
    unpacked = records_in_turns(batch, memory)
    records = turn_list([one for one in unpacked if one.offset >= from_offset])
    memory.give_back()
    if not records:
        return b""
    is_append_time = batch.timestamp_type is TimestampType.LOG_APPEND_TIME
    builder = MessageSetBuilder(
        records[0].offset,
        magic=magic,
        compression=compression,
        append_time_ms=batch.max_timestamp_ms if is_append_time else None,
    )
    for record in records:
        builder.append_at(record.offset, record.key, record.value, record.timestamp_ms)
    return aside(builder.build)
