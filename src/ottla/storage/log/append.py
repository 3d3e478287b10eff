"""Validates batches before they are appended, and assigns their offsets at the lowest cost.

Base offset and leader epoch of a v2 batch are patched in place: the CRC covers neither, so nothing
is recomputed and no record is touched. A batch is rewritten only if `compression.type` sets another
codec, or the topic another message format (`conversion`); LogAppendTime rewrites the header. The
records are walked, so that no record is stored that readers cannot parse (`record.walk`). Work that
would take too long raises `LongPreparationError`. Kafka's counterparts: `LogValidator` and
`UnifiedLog.analyzeAndValidateRecords`.

Different from Kafka: records that cannot be decompressed are refused with INVALID_RECORD, not with
UNKNOWN_SERVER_ERROR.
"""

from collections.abc import Iterator
from typing import Final

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError, InvalidRecordsError, RecordError
from ottla.base.files import Buffer
from ottla.base.values import dataclass
from ottla.codec.compression import Compression, UnpackedSizeError, decompress
from ottla.codec.frames import CompressionError
from ottla.config.setting import INT32_MAX, INT64_MAX
from ottla.config.topic import TopicConfig
from ottla.record.batch import (
    CODEC_MASK,
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    LOG_APPEND_TIME_BIT,
    Batch,
    BuiltBatch,
    InvalidBatchError,
    RecordBatch,
    TimestampType,
    iter_batches,
)
from ottla.record.record import Record
from ottla.record.walk import (
    ANY_TIME,
    AT_ONCE_COUNT,
    HAS_NULL_KEY,
    HAS_OTHER_LARGEST,
    IS_OUT_OF_RANGE,
    REASONS,
    WRONG_TIMESTAMP,
    Found,
    check_records,
)
from ottla.storage.log.append_target import (
    TARGET_COMPRESSION,
    AppendTarget,
    check_total,
    is_writable,
    records_of,
    too_large,
    unpacked_limit,
)
from ottla.storage.log.producer_state import CLIENT, REPLICATION, AppendOrigin

NO_TIMESTAMP: Final = -1

INLINE_SIZE: Final = 1 << 20
"""Bytes that may be decompressed without deferring; gzip takes 2 to 4 ms for them."""

WALK_SIZE: Final = 4 << 20
"""Bytes that may be walked without deferring; the smallest records take 3 ms."""

INLINE_COUNT: Final = 500
"""Records that may be read one by one without deferring."""

NOT_OF_CLIENTS = CONTROL_BIT | DELETE_HORIZON_BIT | LOG_APPEND_TIME_BIT
"""Attributes that only brokers may set."""


@dataclass(slots=True, init=False)
class AppendInfo:
    """The result of an append.

    `log_append_time_ms` is -1 under CreateTime. `size` is the number of bytes added: 0 for a retry,
    which has the offsets of the first attempt. Not frozen, for speed: each append needs one.
    """

    first_offset: int
    last_offset: int
    log_append_time_ms: int
    log_start_offset: int
    size: int

    def __init__(
        self,
        first_offset: int,
        last_offset: int,
        log_append_time_ms: int,
        log_start_offset: int,
        size: int,
    ) -> None:
        self.first_offset = first_offset
        self.last_offset = last_offset
        self.log_append_time_ms = log_append_time_ms
        self.log_start_offset = log_start_offset
        self.size = size


def check_batches(
    records: Buffer | RecordBatch, config: TopicConfig, origin: AppendOrigin
) -> list[Batch]:
    """Splits a message set and checks each batch; raises `ApiError` with Kafka's code.

    The checks: magic, sizes, CRC, `max.message.bytes` and `segment.bytes`. For clients also record
    counts against offsets, producer fields, and attributes that only brokers may set.
    """
    batches: list[Batch] = [records] if isinstance(records, RecordBatch) else _split(records)
    if not batches:
        raise ApiError(ErrorCode.INVALID_RECORD, "The request holds no record batch.")
    is_from_client = origin is CLIENT
    max_size = INT32_MAX if origin is REPLICATION else config.max_message_bytes
    total = 0
    for batch in batches:
        size = batch.size
        if size > max_size:
            raise too_large(batch, config)
        try:
            batch.check()
        except InvalidBatchError as error:
            raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"Damaged record batch: {error}.") from error
        if is_from_client:
            _check_client_batch(batch)
        total += size
    if is_from_client and len(batches) > 1:
        _check_several(batches)
    if config.magic < 2 and origin is not REPLICATION:
        _check_format(batches, config.magic)
    check_total(total, config)
    return batches


def _split(records: Buffer) -> list[Batch]:
    try:
        return list(iter_batches(records))
    except InvalidBatchError as error:
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"Damaged record batch: {error}.") from error


def _check_client_batch(batch: Batch) -> None:
    if batch.magic < 2:
        if batch.timestamp_type is TimestampType.LOG_APPEND_TIME:
            raise _unwelcome(LOG_APPEND_TIME_BIT)
        return
    if batch.attributes & NOT_OF_CLIENTS:
        raise _unwelcome(batch.attributes)
    if batch.base_offset:
        raise ApiError(
            ErrorCode.INVALID_RECORD,
            f"The batch begins at offset {batch.base_offset}; a producer's begins at 0.",
        )
    if batch.record_count <= 0 or batch.record_count != batch.last_offset_delta + 1:
        raise ApiError(
            ErrorCode.INVALID_RECORD,
            f"The batch header has {batch.record_count} records but "
            f"{batch.last_offset_delta + 1} offsets.",
        )
    if batch.producer_id < 0:
        return
    if batch.base_sequence < 0:
        raise ApiError(
            ErrorCode.INVALID_RECORD,
            f"Producer {batch.producer_id} sent sequence number {batch.base_sequence}.",
        )
    if batch.producer_epoch < 0:
        raise ApiError(
            ErrorCode.INVALID_PRODUCER_EPOCH,
            f"Producer {batch.producer_id} sent epoch {batch.producer_epoch}.",
        )


def _unwelcome(attributes: int) -> ApiError:
    if attributes & CONTROL_BIT:
        return ApiError(ErrorCode.INVALID_RECORD, "Clients may not write control batches.")
    if attributes & DELETE_HORIZON_BIT:
        return ApiError(ErrorCode.INVALID_RECORD, "Clients may not set a delete horizon.")
    return InvalidRecordsError(
        ErrorCode.INVALID_TIMESTAMP,
        "Clients may not send timestamps of type LogAppendTime.",
        [RecordError(0, "a client must send timestamps of type CreateTime")],
    )


def _check_several(batches: list[Batch]) -> None:
    if any(batch.producer_id >= 0 for batch in batches):
        raise ApiError(
            ErrorCode.INVALID_RECORD, "A producer with an id may send one batch per partition."
        )
    if len({batch.magic for batch in batches}) > 1:
        raise ApiError(ErrorCode.INVALID_RECORD, "The batches have different message formats.")


def _check_format(batches: list[Batch], magic: int) -> None:
    """Refuses batches of producers with an id: the old formats have no fields for the id."""
    if any(one.producer_id >= 0 or one.is_transactional for one in batches):
        raise ApiError(
            ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
            f"Idempotent and transactional producers need message format v2, not v{magic}.",
        )


@dataclass(frozen=True, slots=True)
class PreparedRecords:
    """Validated and rewritten records that only need their offsets."""

    records: Buffer
    batches: list[Batch]


class LongPreparationError(Exception):
    """Preparing these records would block other work for too long.

    `prepare` may be called in any thread: it uses no state of the log.
    """

    def __init__(self, records: Buffer, batches: list[Batch], target: AppendTarget) -> None:
        super().__init__("records that take long to prepare")
        self._records = records
        self._batches = batches
        self._target = AppendTarget(target.config, 0, target.leader_epoch, target.now_ms)

    def prepare(self) -> PreparedRecords:
        """Validates and rewrites the records; raises `ApiError`."""
        return PreparedRecords(*prepare_append(self._records, self._batches, self._target))


def prepare_append(
    records: Buffer, batches: list[Batch], target: AppendTarget
) -> tuple[Buffer, list[Batch]]:
    """Gives checked batches their offsets, epoch and time, in place if `records` is writable.

    Returns the bytes to write, and the batches as views of them. Raises `ApiError`, and
    `LongPreparationError` if the target allows deferring.
    """
    config = target.config
    if batches[0].magic < 2 or config.magic < 2:
        if target.may_defer and config.magic >= 2 and _is_long(batches):
            raise LongPreparationError(records, batches, target)
        _check_each(batches, config, target.now_ms)
        from ottla.storage.log.conversion import convert

        records = convert(records, batches, target)
        batches = list(iter_batches(records))
        if config.magic < 2:
            return records, batches
    elif _must_recompress(batches, config):
        if target.may_defer and _is_long(batches):
            raise LongPreparationError(records, batches, target)
        from ottla.storage.log.conversion import recompress

        records = recompress(batches, target)
        batches = list(iter_batches(records))
    elif not is_writable(records):
        records = bytearray(records)
        batches = list(iter_batches(records))
    try:
        for batch in batches:
            if batch.attributes & CONTROL_BIT:
                continue
            assert isinstance(batch, RecordBatch)
            if isinstance(batch, BuiltBatch) and not (
                config.is_compacted or config.checks_timestamps
            ):
                continue
            found = _walk(batch, target)
            # Batches of most clients need no correction; null keys are common.
            if found != 0 and (found != HAS_NULL_KEY or config.is_compacted):
                _judge(batch, target, found)
    except _TakesLongError:
        raise LongPreparationError(records, batches, target) from None
    stamp_batches(batches, target)
    return records, batches


def stamp_batches(batches: list[Batch], target: AppendTarget) -> None:
    """Writes offsets, leader epoch and, for LogAppendTime, the time into prepared v2 batches."""
    append_time_ms = target.now_ms if target.config.is_append_time else None
    base_offset = target.base_offset
    for batch in batches:
        assert isinstance(batch, RecordBatch)
        batch.stamp(base_offset, target.leader_epoch)
        if append_time_ms is not None and not batch.is_control:
            batch.stamp_append_time(append_time_ms)
        base_offset += batch.last_offset_delta + 1


def _is_long(batches: list[Batch]) -> bool:
    """Whether rebuilding these batches may take more than 5 ms."""
    if len(batches) > INLINE_COUNT:
        return True
    return any(
        one.compression is not Compression.NONE
        or (one.magic == 2 and one.record_count > INLINE_COUNT)
        for one in batches
    )


class _TakesLongError(Exception):
    """The work in progress would block the current thread for too long."""


def _walk(batch: RecordBatch, target: AppendTarget) -> Found:
    """Walks the records of a v2 batch; see `record.walk` for the result."""
    if target.may_defer and (batch.size > WALK_SIZE or batch.record_count > AT_ONCE_COUNT):
        raise _TakesLongError
    payload = _unpack(batch, target) if batch.attributes & CODEC_MASK else batch.payload
    earliest_ms, latest_ms = ANY_TIME
    if target.config.checks_timestamps:
        earliest_ms, latest_ms = _time_bounds(target.config, target.now_ms)
    return check_records(batch, payload, earliest_ms, latest_ms)


def _judge(batch: RecordBatch, target: AppendTarget, found: Found) -> None:
    """Raises `ApiError` for a bad batch, or corrects its largest timestamp as Kafka does."""
    config = target.config
    flags, value = (found, 0) if isinstance(found, int) else found
    if flags < 0:
        raise InvalidRecordsError(
            ErrorCode.INVALID_TIMESTAMP if flags == WRONG_TIMESTAMP else ErrorCode.INVALID_RECORD,
            f"Record {value} of {batch.record_count} is malformed: {REASONS[flags]}.",
            [RecordError(value, REASONS[flags])],
        )
    if flags & IS_OUT_OF_RANGE or (flags & HAS_NULL_KEY and config.is_compacted):
        if target.may_defer and batch.record_count > INLINE_COUNT:
            raise _TakesLongError
        _check_each([batch], config, target.now_ms)
    if flags & HAS_OTHER_LARGEST and not config.is_append_time:
        batch.stamp_max_timestamp(value)


def _unpack(batch: RecordBatch, target: AppendTarget) -> Buffer:
    limit = unpacked_limit(batch, target.config)
    inline = min(limit, INLINE_SIZE) if target.may_defer else limit
    try:
        return decompress(batch.compression, batch.payload, inline)
    except UnpackedSizeError as error:
        if inline < limit:
            raise _TakesLongError from None
        raise ApiError(ErrorCode.INVALID_RECORD, f"{error}.") from error
    except CompressionError as error:
        raise ApiError(ErrorCode.INVALID_RECORD, f"Damaged records: {error}.") from error


def _time_bounds(config: TopicConfig, now_ms: int) -> tuple[int, int]:
    """The earliest and latest CreateTime that `message.timestamp.before/after.max.ms` allow."""
    before, after = config.timestamp_before_max_ms, config.timestamp_after_max_ms
    return max(now_ms - before, ANY_TIME[0]), min(now_ms + after, INT64_MAX)


def _check_each(batches: list[Batch], config: TopicConfig, now_ms: int) -> None:
    """Raises `InvalidRecordsError` for timestamps out of range, and for missing keys."""
    if config.checks_timestamps:
        earliest_ms, latest_ms = _time_bounds(config, now_ms)
        _refuse(
            ErrorCode.INVALID_TIMESTAMP,
            "have timestamps outside message.timestamp.before.max.ms and "
            "message.timestamp.after.max.ms",
            [
                RecordError(index, f"timestamp {one.timestamp_ms} is out of range at {now_ms}")
                for index, one in _records(batches, config)
                if one.timestamp_ms != NO_TIMESTAMP
                and not earliest_ms <= one.timestamp_ms <= latest_ms
            ],
        )
    if config.is_compacted:
        _refuse(
            ErrorCode.INVALID_RECORD,
            "have no key, which a compacted topic requires",
            [
                RecordError(index, "a compacted topic requires a key")
                for index, one in _records(batches, config)
                if one.key is None
            ],
        )


def _records(batches: list[Batch], config: TopicConfig) -> Iterator[tuple[int, Record]]:
    """The records, each with its index in its batch."""
    for batch in batches:
        if not batch.is_control:
            yield from enumerate(records_of(batch, config))


def _refuse(code: ErrorCode, fault: str, refused: list[RecordError]) -> None:
    if refused:
        raise InvalidRecordsError(code, f"{len(refused)} records {fault}.", refused)


def _must_recompress(batches: list[Batch], config: TopicConfig) -> bool:
    target = TARGET_COMPRESSION.get(config.compression_type)
    if target is None:
        return False
    return any(target is not one.compression and not one.is_control for one in batches)
