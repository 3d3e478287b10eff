"""Requests about the topic `__remote_log_metadata`, to the broker that leads a partition of it."""

from ottla.base.error_codes import ErrorCode
from ottla.base.partitions import TopicPartition
from ottla.base.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataAppend:
    """A record to append; the answer carries the same number."""

    number: int
    broker: int
    place: TopicPartition
    value: bytes
    timestamp_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataFetch:
    """Asks for the records from an offset on, as a consumer does."""

    broker: int
    place: TopicPartition
    offset: int


MetadataRequest = MetadataAppend | MetadataFetch


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataAnswer:
    """`offset` is that of an appended record; `records` are batches from the asked offset on, and
    `high_watermark` where they end at the leader.
    """

    error: ErrorCode
    offset: int = -1
    high_watermark: int = -1
    log_start_offset: int = 0
    records: bytes = b""
