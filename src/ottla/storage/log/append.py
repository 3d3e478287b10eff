"""Validates batches before they enter the log, and corrects them in the cheapest way.

A v2 batch that may stay as it is gets its base offset and leader epoch patched in place: neither is
covered by the CRC, so nothing is recomputed and no record is touched. It is rewritten only when
`compression.type` asks for another codec, or the topic for another message format (`conversion`);
LogAppendTime rewrites the header. The records are walked, so that nothing is stored that a reader
cannot read past (`record.walk`); what that takes too long for is a `LongPreparation`. Kafka's
counterpart: `LogValidator` and `UnifiedLog.analyzeAndValidateRecords`.

Different from Kafka: what does not unpack is an INVALID_RECORD, not an unknown error of the server.
"""

from collections.abc import Iterator
from typing import Final

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.files import Buffer
from ottla.base.values import dataclass
from ottla.codec.compression import Compression, CompressionError, UnpackedSizeError, decompress
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
from ottla.storage.log.conversion import (
    TARGET_COMPRESSION,
    AppendTarget,
    check_total,
    convert,
    is_writable,
    recompress,
    records_of,
    too_large,
    unpacked_limit,
)
from ottla.storage.log.producer_state import CLIENT, REPLICATION, AppendOrigin

NO_TIMESTAMP: Final = -1

INLINE_SIZE: Final = 1 << 20
"""What is unpacked at once; gzip takes 2 to 4 ms for it."""

WALK_SIZE: Final = 4 << 20
"""What is walked at once: of the smallest records it takes 3 ms."""

INLINE_COUNT: Final = 500
"""How many records are read one by one at once."""

NOT_OF_CLIENTS = CONTROL_BIT | DELETE_HORIZON_BIT | LOG_APPEND_TIME_BIT
"""What only brokers say of a batch."""


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


@dataclass(slots=True, init=False)
class AppendInfo:
    """The result of an append. Offsets are the log's; `log_append_time_ms` is -1 under CreateTime.

    `size` is what it added in bytes, 0 for a retry. Not frozen, since one is made for every append.
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

    @property
    def is_duplicate(self) -> bool:
        return self.size == 0


def check_batches(
    records: Buffer | RecordBatch, config: TopicConfig, origin: AppendOrigin
) -> list[Batch]:
    """Splits a message set and checks each batch; raises `ApiError` with Kafka's code.

    Checked: magic, sizes, CRC, counts against offsets, `max.message.bytes`, `segment.bytes`, and
    what only coordinators may send.
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
            f"The batch states {batch.record_count} records and "
            f"{batch.last_offset_delta + 1} offsets.",
        )
    if batch.producer_id < 0:
        return
    if batch.base_sequence < 0:
        raise ApiError(
            ErrorCode.INVALID_RECORD,
            f"Producer {batch.producer_id} sent the sequence number {batch.base_sequence}.",
        )
    if batch.producer_epoch < 0:
        raise ApiError(
            ErrorCode.INVALID_PRODUCER_EPOCH,
            f"Producer {batch.producer_id} sent the epoch {batch.producer_epoch}.",
        )


def _unwelcome(attributes: int) -> ApiError:
    if attributes & CONTROL_BIT:
        return ApiError(ErrorCode.INVALID_RECORD, "Clients may not write control batches.")
    if attributes & DELETE_HORIZON_BIT:
        return ApiError(ErrorCode.INVALID_RECORD, "Clients may not set a delete horizon.")
    return InvalidRecordsError(
        ErrorCode.INVALID_TIMESTAMP,
        "Clients may not say that a timestamp is the broker's.",
        [RecordError(0, "a client's timestamp is of type CreateTime")],
    )


def _check_several(batches: list[Batch]) -> None:
    if any(batch.producer_id >= 0 for batch in batches):
        raise ApiError(
            ErrorCode.INVALID_RECORD, "A producer with an id may send one batch at a time."
        )
    if len({batch.magic for batch in batches}) > 1:
        raise ApiError(ErrorCode.INVALID_RECORD, "The batches are of different formats.")


def _check_format(batches: list[Batch], magic: int) -> None:
    """Refuses batches of producers with an id in the old formats: only v2 has fields for the id."""
    if any(one.producer_id >= 0 or one.is_transactional for one in batches):
        raise ApiError(
            ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
            f"Idempotent and transactional producers need message format v2, not v{magic}.",
        )


@dataclass(frozen=True, slots=True)
class PreparedRecords:
    """Records that may enter the log, but for their offsets."""

    records: Buffer
    batches: list[Batch]


class LongPreparationError(Exception):
    """Preparing these records would block other work for too long.

    `prepare` does it in any thread: it looks at nothing but what it was given.
    """

    def __init__(self, records: Buffer, batches: list[Batch], target: AppendTarget) -> None:
        super().__init__("records that take long to prepare")
        self._records = records
        self._batches = batches
        self._target = AppendTarget(target.config, 0, target.leader_epoch, target.now_ms)

    def prepare(self) -> PreparedRecords:
        """Raises `ApiError`."""
        return PreparedRecords(*prepare_append(self._records, self._batches, self._target))


def prepare_append(
    records: Buffer, batches: list[Batch], target: AppendTarget
) -> tuple[Buffer, list[Batch]]:
    """Gives checked batches their offsets, epoch and time, in place where `records` allows it.

    Returns the bytes to be written, and the batches as they are in them. Raises `ApiError`, and
    `LongPreparationError` where the target lets it be done elsewhere.
    """
    config = target.config
    if batches[0].magic < 2 or config.magic < 2:
        if target.may_defer and config.magic >= 2 and _is_long(batches):
            raise LongPreparationError(records, batches, target)
        _check_each(batches, config, target.now_ms)
        records = convert(records, batches, target)
        batches = list(iter_batches(records))
        if config.magic < 2:
            return records, batches
    elif _must_recompress(batches, config):
        if target.may_defer and _is_long(batches):
            raise LongPreparationError(records, batches, target)
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
            # The form in which well-behaved clients send batches; most of them send null keys.
            if found != 0 and (found != HAS_NULL_KEY or config.is_compacted):
                _judge(batch, target, found)
    except _TakesLongError:
        raise LongPreparationError(records, batches, target) from None
    stamp_batches(batches, target)
    return records, batches


def stamp_batches(batches: list[Batch], target: AppendTarget) -> None:
    """Gives prepared batches their places in the log."""
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
    """What is found in the records of a v2 batch."""
    if target.may_defer and (batch.size > WALK_SIZE or batch.record_count > AT_ONCE_COUNT):
        raise _TakesLongError
    payload = _unpack(batch, target) if batch.attributes & CODEC_MASK else batch.payload
    earliest_ms, latest_ms = ANY_TIME
    if target.config.checks_timestamps:
        earliest_ms, latest_ms = _time_bounds(target.config, target.now_ms)
    return check_records(batch, payload, earliest_ms, latest_ms)


def _judge(batch: RecordBatch, target: AppendTarget, found: Found) -> None:
    """Refuses the batch, or repairs its largest timestamp as Kafka does."""
    config = target.config
    flags, value = (found, 0) if isinstance(found, int) else found
    if flags < 0:
        raise InvalidRecordsError(
            ErrorCode.INVALID_TIMESTAMP if flags == WRONG_TIMESTAMP else ErrorCode.INVALID_RECORD,
            f"Record {value} of {batch.record_count} is garbled: {REASONS[flags]}.",
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
    """`message.timestamp.before/after.max.ms` as times, for CreateTime."""
    before, after = config.timestamp_before_max_ms, config.timestamp_after_max_ms
    return max(now_ms - before, ANY_TIME[0]), min(now_ms + after, INT64_MAX)


def _check_each(batches: list[Batch], config: TopicConfig, now_ms: int) -> None:
    """Raises `InvalidRecordsError` for timestamps out of range, and for keys that lack."""
    if config.checks_timestamps:
        earliest_ms, latest_ms = _time_bounds(config, now_ms)
        _refuse(
            ErrorCode.INVALID_TIMESTAMP,
            "carry timestamps outside message.timestamp.before.max.ms and "
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
            "lack a key, which a compacted topic needs",
            [
                RecordError(index, "a compacted topic needs a key")
                for index, one in _records(batches, config)
                if one.key is None
            ],
        )


def _records(batches: list[Batch], config: TopicConfig) -> Iterator[tuple[int, Record]]:
    """The records with their places in their batches."""
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
