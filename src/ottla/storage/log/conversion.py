"""Rewrites batches before they are appended: in another codec, or another message format.

A topic's `message.format.version` decides the format of its log; batches in another format are
converted, up or down. A message set that has the right old format already only gets its offsets
and times patched. Kafka's counterpart: `LogValidator`.

Different from Kafka: zstd and headers, which the old formats do not support, are refused with an
error code of their own, not with UNKNOWN_SERVER_ERROR. A message set with several wrappers is
accepted, as in Kafka before 2.4, for the clients of that time.
"""

from collections.abc import Iterable
from typing import Final

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.files import Buffer
from ottla.codec.compression import Compression
from ottla.config.setting import INT64_MAX
from ottla.config.topic import TopicConfig
from ottla.record.batch import Batch, InvalidBatchError, iter_batches
from ottla.record.builder import RecordBatchBuilder
from ottla.record.legacy import LegacyBatch, inner_messages
from ottla.record.message_set import MessageSetBuilder
from ottla.storage.log.append_target import (
    TARGET_COMPRESSION,
    AppendTarget,
    check_total,
    is_writable,
    records_of,
    too_large,
    unpacked_limit,
)

DEFAULT_LZ4_LEVEL: Final = 9
"""As in Kafka, the default level means LZ4's fast mode, which has no levels."""


def recompress(batches: list[Batch], target: AppendTarget) -> Buffer:
    """Rewrites each v2 batch in the topic's codec; raises `ApiError`."""
    return _limited(bytearray().join(_as_record_batch([one], target) for one in batches), target)


def convert(records: Buffer, batches: list[Batch], target: AppendTarget) -> Buffer:
    """Converts a message set that is in an old format, or for a log in an old format.

    Results in an old format have their offsets and times; v2 batches must still be stamped. Raises
    `ApiError`.
    """
    magic = target.config.magic
    if batches[0].magic < 2:
        _check_messages(batches, target.config)
    if magic >= 2:
        return _limited(bytearray(_as_record_batch(batches, target)), target)
    if batches[0].magic == magic and _may_stay(batches, target):
        if not is_writable(records):
            records = bytearray(records)
        _patch(list(iter_batches(records)), target)
        return records
    groups = [batches] if batches[0].magic < 2 else [[one] for one in batches]
    converted = bytearray()
    base_offset = target.base_offset
    for group in groups:
        builder = _message_set_builder(group, base_offset, target)
        for batch in group:
            _add_messages(builder, batch, target.config)
        converted += builder.build()
        base_offset += builder.record_count
    return _limited(converted, target)


def _check_messages(batches: list[Batch], config: TopicConfig) -> None:
    """Checks that wrappers only hold messages of their own format, as Kafka does."""
    for batch in batches:
        assert isinstance(batch, LegacyBatch)
        if batch.compression is Compression.NONE:
            continue
        try:
            magics = {one.magic for one in _messages(batch, config)}
        except InvalidBatchError as error:
            raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"Damaged records: {error}.") from error
        if magics != {batch.magic}:
            raise ApiError(
                ErrorCode.INVALID_RECORD,
                f"A wrapper of format v{batch.magic} holds messages of another format.",
            )


def _may_stay(batches: list[Batch], target: AppendTarget) -> bool:
    """Whether only offsets and times of the messages must be patched."""
    # Not in a v0 wrapper, whose inner offsets are absolute, nor in a v1 wrapper whose inner
    # offsets do not count from 0, as some clients send. Reading all records also validates them.
    counts_from_0 = True
    for batch in batches:
        assert isinstance(batch, LegacyBatch)
        offsets = [record.offset for record in records_of(batch, target.config)]
        counts_from_0 = counts_from_0 and offsets == list(range(len(offsets)))
        if not all(one.has_plain_nulls for one in _messages(batch, target.config)):
            return False
    compression = _compression(batches, target.config)
    if any(one.compression is not compression for one in batches):
        return False
    return compression is Compression.NONE or (batches[0].magic == 1 and counts_from_0)


def _messages(batch: LegacyBatch, config: TopicConfig) -> Iterable[LegacyBatch]:
    if batch.compression is Compression.NONE:
        return [batch]
    return inner_messages(batch, unpacked_limit(batch, config))


def _patch(batches: list[Batch], target: AppendTarget) -> None:
    """Patches offsets, and the time of v1 entries; a wrapper has the largest of its messages."""
    next_offset = target.base_offset
    append_time_ms = _append_time_ms(target)
    for batch in batches:
        assert isinstance(batch, LegacyBatch)
        times = [record.timestamp_ms for record in records_of(batch, target.config)]
        next_offset += len(times)
        batch.stamp(next_offset - 1)
        if append_time_ms is not None and batch.magic:
            batch.stamp_time(append_time_ms, is_append_time=True)
        elif batch.magic:
            batch.stamp_time(max(times), is_append_time=False)


def _message_set_builder(
    batches: list[Batch], base_offset: int, target: AppendTarget
) -> MessageSetBuilder:
    compression = _compression(batches, target.config)
    if compression is Compression.ZSTD:
        raise ApiError(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            f"Message format v{target.config.magic} does not support zstd.",
        )
    return MessageSetBuilder(
        base_offset,
        magic=target.config.magic,
        compression=compression,
        compression_level=_level(compression, target.config),
        append_time_ms=_append_time_ms(target),
    )


def _add_messages(builder: MessageSetBuilder, batch: Batch, config: TopicConfig) -> None:
    for record in records_of(batch, config):
        if record.headers:
            raise ApiError(
                ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
                f"Message format v{builder.magic} does not support record headers.",
            )
        builder.append(record.key, record.value, record.timestamp_ms)


def _as_record_batch(batches: list[Batch], target: AppendTarget) -> bytes:
    """Builds one v2 batch from the records of all batches."""
    first, config = batches[0], target.config
    compression = _compression(batches, config)
    builder = RecordBatchBuilder(
        compression=compression,
        compression_level=_level(compression, config),
        producer_id=first.producer_id,
        producer_epoch=first.producer_epoch,
        base_sequence=first.base_sequence,
        is_transactional=first.is_transactional,
    )
    first_ms: int | None = None
    for batch in batches:
        for record in records_of(batch, config):
            if first_ms is None:
                first_ms = record.timestamp_ms
            elif not -INT64_MAX - 1 <= record.timestamp_ms - first_ms <= INT64_MAX:
                raise ApiError(
                    ErrorCode.INVALID_TIMESTAMP,
                    f"The timestamps {first_ms} and {record.timestamp_ms} are too far apart for "
                    "one batch.",
                )
            builder.append(record.key, record.value, record.timestamp_ms, record.headers)
    return builder.build()


def _limited(records: Buffer, target: AppendTarget) -> Buffer:
    """Checks the size limits again for rewritten batches; raises `ApiError`."""
    config = target.config
    for batch in iter_batches(records):
        if batch.size > config.max_message_bytes:
            raise too_large(batch, config)
    check_total(len(records), config)
    return records


def _append_time_ms(target: AppendTarget) -> int | None:
    return target.now_ms if target.config.is_append_time else None


def _compression(batches: list[Batch], config: TopicConfig) -> Compression:
    """The topic's codec, or that of the last compressed batch of the producer."""
    taken = [one.compression for one in batches if one.compression is not Compression.NONE]
    default = taken[-1] if taken else Compression.NONE
    return TARGET_COMPRESSION.get(config.compression_type, default)


def _level(compression: Compression, config: TopicConfig) -> int | None:
    """The topic's compression level; `None` for the default, or if the producer sets the codec."""
    if config.compression_type == "producer":
        return None
    match compression:
        case Compression.GZIP if config.compression_gzip_level >= 0:
            return config.compression_gzip_level
        case Compression.LZ4 if config.compression_lz4_level != DEFAULT_LZ4_LEVEL:
            return config.compression_lz4_level
        case Compression.ZSTD:
            return config.compression_zstd_level
    return None
