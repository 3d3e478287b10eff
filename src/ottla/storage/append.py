"""What must be true of batches before they enter the log, and the cheapest way to make it so.

A v2 batch that may stay as it is gets its base offset and leader epoch patched in place: neither is
covered by the CRC, so nothing is recomputed and no record is touched. It is rebuilt only when
`compression.type` asks for another codec or it is of an old format; LogAppendTime rewrites the
header. Kafka's counterpart: `LogValidator` and `UnifiedLog.analyzeAndValidateRecords`.

Different from Kafka: the records inside an unchanged batch are not walked, so a count or a largest
timestamp that a client states wrongly under a right CRC is stored as stated.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.files import Buffer
from ottla.codec.compression import Compression
from ottla.config.setting import INT32_MAX, INT64_MAX
from ottla.config.topic import TopicConfig
from ottla.record.batch import (
    Batch,
    InvalidBatchError,
    RecordBatch,
    batch_at,
    iter_batches,
)
from ottla.record.builder import RecordBatchBuilder
from ottla.record.record import Record, read_records
from ottla.storage.producer_state import AppendOrigin

NO_TIMESTAMP = -1

TARGET_COMPRESSION = {
    "uncompressed": Compression.NONE,
    "gzip": Compression.GZIP,
    "snappy": Compression.SNAPPY,
    "lz4": Compression.LZ4,
    "zstd": Compression.ZSTD,
}


@dataclass(frozen=True, slots=True)
class RecordError:
    """Why one record of a batch is refused; `index` counts from the batch's first."""

    index: int
    message: str


class InvalidRecordsError(ApiError):
    """Some records of a batch break the topic's rules (Kafka: `RecordValidationException`)."""

    def __init__(self, code: ErrorCode, message: str, records: list[RecordError]) -> None:
        super().__init__(code, message)
        self.records = records


@dataclass(slots=True, kw_only=True)
class AppendInfo:
    """What an append did. Offsets are the log's; `log_append_time_ms` is -1 under CreateTime."""

    first_offset: int
    last_offset: int
    max_timestamp_ms: int
    offset_of_max_timestamp: int
    log_append_time_ms: int
    log_start_offset: int
    size: int
    record_count: int
    is_duplicate: bool = False


@dataclass(slots=True)
class AppendTarget:
    """Where batches go and under which rules. Not frozen, since one is made for every append."""

    config: TopicConfig
    base_offset: int
    leader_epoch: int
    now_ms: int


def check_batches(records: Buffer, config: TopicConfig, origin: AppendOrigin) -> list[Batch]:
    """Splits a message set and checks each batch; raises `ApiError` with Kafka's code.

    Checked: magic, sizes, CRC, counts against offsets, `max.message.bytes`, `segment.bytes`, and
    what only coordinators may send.
    """
    batches = _split(records)
    if not batches:
        raise ApiError(ErrorCode.INVALID_RECORD, "The request holds no record batch.")
    is_from_client = origin is AppendOrigin.CLIENT
    max_size = INT32_MAX if origin is AppendOrigin.REPLICATION else config.max_message_bytes
    total = 0
    for batch in batches:
        size = batch.size
        if size > max_size:
            raise _too_large(batch, config)
        try:
            batch.check()
        except InvalidBatchError as error:
            raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"Damaged record batch: {error}.") from error
        if is_from_client:
            _check_client_batch(batch)
        total += size
    if is_from_client and len(batches) > 1:
        _check_several(batches)
    if total > config.segment_bytes:
        raise ApiError(
            ErrorCode.RECORD_LIST_TOO_LARGE,
            f"{total} bytes are more than segment.bytes={config.segment_bytes}.",
        )
    return batches


def _split(records: Buffer) -> list[Batch]:
    batches = []
    position = 0
    end = len(records)
    try:
        while position < end:
            batch = batch_at(records, position)
            batches.append(batch)
            position += batch.size
    except InvalidBatchError as error:
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"Damaged record batch: {error}.") from error
    if position > end:
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, "The last record batch is cut short.")
    return batches


def _too_large(batch: Batch, config: TopicConfig) -> ApiError:
    return ApiError(
        ErrorCode.MESSAGE_TOO_LARGE,
        f"A batch of {batch.size} bytes is larger than "
        f"max.message.bytes={config.max_message_bytes}.",
    )


def _check_client_batch(batch: Batch) -> None:
    if batch.is_control:
        raise ApiError(ErrorCode.INVALID_RECORD, "Clients may not write control batches.")
    if batch.magic < 2:
        return
    if batch.record_count <= 0 or batch.record_count != batch.last_offset_delta + 1:
        raise ApiError(
            ErrorCode.INVALID_RECORD,
            f"The batch states {batch.record_count} records and "
            f"{batch.last_offset_delta + 1} offsets.",
        )
    if batch.has_delete_horizon:
        raise ApiError(ErrorCode.INVALID_RECORD, "Clients may not set a delete horizon.")
    if batch.producer_id >= 0 and batch.base_sequence < 0:
        raise ApiError(
            ErrorCode.INVALID_RECORD,
            f"Producer {batch.producer_id} sent the sequence number {batch.base_sequence}.",
        )


def _check_several(batches: list[Batch]) -> None:
    if any(batch.producer_id >= 0 for batch in batches):
        raise ApiError(
            ErrorCode.INVALID_RECORD, "A producer with an id may send one batch at a time."
        )
    if len({batch.magic for batch in batches}) > 1:
        raise ApiError(ErrorCode.INVALID_RECORD, "The batches are of different formats.")


def prepare_append(
    records: Buffer, batches: list[Batch], target: AppendTarget
) -> tuple[Buffer, list[Batch]]:
    """Gives checked batches their offsets, epoch and time, in place where `records` allows it.

    Returns the bytes to be written, and the batches as they are in them.
    """
    config = target.config
    _check_timestamps(batches, config, target.now_ms)
    if config.is_compacted:
        _check_keys(batches)
    if _must_rebuild(batches, config):
        records = bytearray().join(_rebuild(batch, target) for batch in batches)
        batches = list(iter_batches(records))
    elif not _is_writable(records):
        records = bytearray(records)
        batches = list(iter_batches(records))
    append_time_ms = target.now_ms if config.is_append_time else None
    base_offset = target.base_offset
    for batch in batches:
        assert isinstance(batch, RecordBatch)
        batch.stamp(base_offset, target.leader_epoch)
        if append_time_ms is not None and not batch.is_control:
            batch.stamp_append_time(append_time_ms)
        base_offset += batch.last_offset_delta + 1
    return records, batches


def _is_writable(records: Buffer) -> bool:
    if isinstance(records, memoryview):
        return not records.readonly
    return isinstance(records, bytearray)


def _check_timestamps(batches: list[Batch], config: TopicConfig, now_ms: int) -> None:
    """CreateTime must lie within `message.timestamp.before/after.max.ms` of the broker's clock."""
    before = config.message_timestamp_before_max_ms
    after = config.message_timestamp_after_max_ms
    if config.is_append_time or (before == INT64_MAX and after == INT64_MAX):
        return
    for batch in batches:
        if batch.is_control:
            continue
        refused = [
            RecordError(index, f"timestamp {record.timestamp_ms} is out of range at {now_ms}")
            for index, record in enumerate(_records_of(batch))
            if record.timestamp_ms != NO_TIMESTAMP
            and (now_ms - record.timestamp_ms > before or record.timestamp_ms - now_ms > after)
        ]
        if refused:
            raise InvalidRecordsError(
                ErrorCode.INVALID_TIMESTAMP,
                f"{len(refused)} records carry timestamps outside "
                "message.timestamp.before.max.ms and message.timestamp.after.max.ms.",
                refused,
            )


def _check_keys(batches: list[Batch]) -> None:
    for batch in batches:
        if batch.is_control:
            continue
        refused = [
            RecordError(index, "a compacted topic needs a key")
            for index, record in enumerate(_records_of(batch))
            if record.key is None
        ]
        if refused:
            raise InvalidRecordsError(
                ErrorCode.INVALID_RECORD,
                f"{len(refused)} records lack a key, which a compacted topic needs.",
                refused,
            )


def _records_of(batch: Batch) -> Iterator[Record]:
    try:
        yield from read_records(batch)
    except InvalidBatchError as error:
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"Damaged records: {error}.") from error


def _must_rebuild(batches: list[Batch], config: TopicConfig) -> bool:
    target = TARGET_COMPRESSION.get(config.compression_type)
    for batch in batches:
        if batch.magic < 2:
            return True
        if target is not None and target != batch.compression and not batch.is_control:
            return True
    return False


def _rebuild(batch: Batch, target: AppendTarget) -> bytes:
    """Writes a batch anew in the topic's codec and the current format."""
    config = target.config
    compression = TARGET_COMPRESSION.get(config.compression_type, batch.compression)
    builder = RecordBatchBuilder(
        compression=compression,
        compression_level=_level(compression, config),
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
        is_transactional=batch.is_transactional,
    )
    for record in _records_of(batch):
        builder.append(record.key, record.value, record.timestamp_ms, record.headers)
    return builder.build()


def _level(compression: Compression, config: TopicConfig) -> int | None:
    match compression:
        case Compression.GZIP if config.compression_gzip_level >= 0:
            return config.compression_gzip_level
        case Compression.LZ4:
            return config.compression_lz4_level
        case Compression.ZSTD:
            return config.compression_zstd_level
    return None
