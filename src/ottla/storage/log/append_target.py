"""Where batches are appended, under which settings and within which limits.

Both `append` and `conversion` build on this; writers import `conversion` only for batches that
must be rewritten.
"""

from collections.abc import Iterator

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.files import Buffer
from ottla.base.values import dataclass
from ottla.codec.compression import Compression, limit_of
from ottla.config.topic import TopicConfig
from ottla.record.batch import Batch, InvalidBatchError
from ottla.record.record import Record, read_records

TARGET_COMPRESSION = {
    "uncompressed": Compression.NONE,
    "gzip": Compression.GZIP,
    "snappy": Compression.SNAPPY,
    "lz4": Compression.LZ4,
    "zstd": Compression.ZSTD,
}


@dataclass(slots=True, init=False)
class AppendTarget:
    """The offsets, epoch, time and settings for an append. Not frozen, for speed."""

    config: TopicConfig
    base_offset: int
    leader_epoch: int
    now_ms: int
    may_defer: bool
    """Whether long work may be left to another thread, by `LongPreparationError`."""

    def __init__(
        self,
        config: TopicConfig,
        base_offset: int,
        leader_epoch: int,
        now_ms: int,
        may_defer: bool = False,
    ) -> None:
        self.config = config
        self.base_offset = base_offset
        self.leader_epoch = leader_epoch
        self.now_ms = now_ms
        self.may_defer = may_defer


def records_of(batch: Batch, config: TopicConfig) -> Iterator[Record]:
    """The records of a batch that a client sent; raises `ApiError`."""
    try:
        yield from read_records(batch, limit=unpacked_limit(batch, config))
    except InvalidBatchError as error:
        # As in Kafka: a producer retries after CORRUPT_MESSAGE, but here the CRC was right, so a
        # retry would not help.
        code = ErrorCode.INVALID_RECORD if batch.magic == 2 else ErrorCode.CORRUPT_MESSAGE
        raise ApiError(code, f"Damaged records: {error}.") from error


def unpacked_limit(batch: Batch, config: TopicConfig) -> int:
    """The size in bytes to which the records of a batch may be decompressed."""
    return limit_of(
        batch.size, config.ottla_decompressed_max_bytes, config.ottla_decompressed_max_ratio
    )


def is_writable(records: Buffer) -> bool:
    if isinstance(records, memoryview):
        return not records.readonly
    return isinstance(records, bytearray)


def too_large(batch: Batch, config: TopicConfig) -> ApiError:
    return ApiError(
        ErrorCode.MESSAGE_TOO_LARGE,
        f"A batch of {batch.size} bytes is larger than "
        f"max.message.bytes={config.max_message_bytes}.",
    )


def check_total(size: int, config: TopicConfig) -> None:
    """Raises `ApiError` for a message set that is larger than a segment."""
    if size > config.segment_bytes:
        raise ApiError(
            ErrorCode.RECORD_LIST_TOO_LARGE,
            f"{size} bytes are more than segment.bytes={config.segment_bytes}.",
        )
