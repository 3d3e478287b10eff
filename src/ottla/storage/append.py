"""What must be true of batches before they enter the log, and the cheapest way to make it so.

A v2 batch that may stay as it is gets its base offset and leader epoch patched in place: neither is
covered by the CRC, so nothing is recomputed and no record is touched. It is written anew only when
`compression.type` asks for another codec, or the topic for another message format (`conversion`);
LogAppendTime rewrites the header. Kafka's counterpart: `LogValidator` and
`UnifiedLog.analyzeAndValidateRecords`.

Different from Kafka: the records inside an unchanged batch are not walked, so a count or a largest
timestamp that a client states wrongly under a right CRC is stored as stated.
"""

from dataclasses import dataclass
from typing import Final

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.files import Buffer
from ottla.config.setting import INT32_MAX, INT64_MAX
from ottla.config.topic import TopicConfig
from ottla.record.batch import (
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    LOG_APPEND_TIME_BIT,
    Batch,
    InvalidBatchError,
    RecordBatch,
    TimestampType,
    batch_at,
    iter_batches,
)
from ottla.storage.conversion import (
    TARGET_COMPRESSION,
    AppendTarget,
    check_total,
    convert,
    is_writable,
    recompress,
    records_of,
    too_large,
)
from ottla.storage.producer_state import CLIENT, REPLICATION, AppendOrigin

NO_TIMESTAMP: Final = -1

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
    """What an append did. Offsets are the log's; `log_append_time_ms` is -1 under CreateTime.

    Not frozen, since one is made for every append.
    """

    first_offset: int
    last_offset: int
    log_append_time_ms: int
    log_start_offset: int
    is_duplicate: bool

    def __init__(
        self,
        first_offset: int,
        last_offset: int,
        log_append_time_ms: int,
        log_start_offset: int,
        is_duplicate: bool,
    ) -> None:
        self.first_offset = first_offset
        self.last_offset = last_offset
        self.log_append_time_ms = log_append_time_ms
        self.log_start_offset = log_start_offset
        self.is_duplicate = is_duplicate


def check_batches(records: Buffer, config: TopicConfig, origin: AppendOrigin) -> list[Batch]:
    """Splits a message set and checks each batch; raises `ApiError` with Kafka's code.

    Checked: magic, sizes, CRC, counts against offsets, `max.message.bytes`, `segment.bytes`, and
    what only coordinators may send.
    """
    batches = _split(records)
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


def _check_client_batch(batch: Batch) -> None:
    if batch.magic < 2:
        if batch.timestamp_type is TimestampType.LOG_APPEND_TIME:
            raise _unwelcome(LOG_APPEND_TIME_BIT)
        return
    if batch.attributes & NOT_OF_CLIENTS:
        raise _unwelcome(batch.attributes)
    if batch.record_count <= 0 or batch.record_count != batch.last_offset_delta + 1:
        raise ApiError(
            ErrorCode.INVALID_RECORD,
            f"The batch states {batch.record_count} records and "
            f"{batch.last_offset_delta + 1} offsets.",
        )
    if batch.producer_id >= 0 and batch.base_sequence < 0:
        raise ApiError(
            ErrorCode.INVALID_RECORD,
            f"Producer {batch.producer_id} sent the sequence number {batch.base_sequence}.",
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
    """Producers with an id leave their traces in the log, for which only v2 has a place."""
    if any(one.producer_id >= 0 or one.is_transactional for one in batches):
        raise ApiError(
            ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
            f"Idempotent and transactional producers need message format v2, not v{magic}.",
        )


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
    if batches[0].magic < 2 or config.magic < 2:
        records = convert(records, batches, target)
        batches = list(iter_batches(records))
        if config.magic < 2:
            return records, batches
    elif _must_recompress(batches, config):
        records = recompress(batches, target)
        batches = list(iter_batches(records))
    elif not is_writable(records):
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


def _check_timestamps(batches: list[Batch], config: TopicConfig, now_ms: int) -> None:
    """CreateTime must lie within `message.timestamp.before/after.max.ms` of the broker's clock."""
    before, after = config.timestamp_before_max_ms, config.timestamp_after_max_ms
    if config.is_append_time or (before == INT64_MAX and after == INT64_MAX):
        return
    for batch in batches:
        if batch.is_control:
            continue
        refused = [
            RecordError(index, f"timestamp {record.timestamp_ms} is out of range at {now_ms}")
            for index, record in enumerate(records_of(batch))
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
            for index, record in enumerate(records_of(batch))
            if record.key is None
        ]
        if refused:
            raise InvalidRecordsError(
                ErrorCode.INVALID_RECORD,
                f"{len(refused)} records lack a key, which a compacted topic needs.",
                refused,
            )


def _must_recompress(batches: list[Batch], config: TopicConfig) -> bool:
    target = TARGET_COMPRESSION.get(config.compression_type)
    if target is None:
        return False
    return any(target is not one.compression and not one.is_control for one in batches)
