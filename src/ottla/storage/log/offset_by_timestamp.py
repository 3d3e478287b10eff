"""Which offset a log had at a time, and the times that stand for an end of the log.

Kafka's counterpart: `UnifiedLog.fetchOffsetByTimestamp`.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.storage.index.time_index import NO_TIMESTAMP
from ottla.storage.segment import segment_times

if TYPE_CHECKING:
    from ottla.record.record import Record
    from ottla.storage.log.partition_log import PartitionLog
    from ottla.storage.segment.segment import Segment

EARLIEST_TIMESTAMP = -2
LATEST_TIMESTAMP = -1
MAX_TIMESTAMP = -3
EARLIEST_LOCAL_TIMESTAMP = -4

KNOWN_WITHOUT_TIMES = (EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, EARLIEST_LOCAL_TIMESTAMP)


@dataclass(frozen=True, slots=True)
class FoundOffset:
    """An answer to "which offset at this time": -1 where Kafka says "none"."""

    offset: int
    timestamp_ms: int
    leader_epoch: int


def find_timestamp(log: "PartitionLog", timestamp_ms: int) -> FoundOffset | None:
    """The first record at or after a time; for the sentinels -2 to -6 what Kafka defines.

    Raises `ApiError(UNSUPPORTED_FOR_MESSAGE_FORMAT)` for a time in a log of format v0, and
    `CorruptionError` where damage hides the answer.
    """
    if log.config.magic == 0 and timestamp_ms not in KNOWN_WITHOUT_TIMES:
        code = ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT
        raise ApiError(code, f"{log.name} is kept in message format v0, without times.")
    match timestamp_ms:
        case -2 | -4:
            return _found(log, log.log_start_offset)
        case -1:
            return _found(log, log.high_watermark)
        case -3:
            return _find_max_timestamp(log)
        case -5 | -6:
            # Nothing is tiered, and nothing waits for it.
            return FoundOffset(-1, NO_TIMESTAMP, -1)
    return _find_time(log, timestamp_ms)


def _find_time(log: "PartitionLog", timestamp_ms: int) -> FoundOffset | None:
    """As Kafka, looks into one segment only: the first whose largest timestamp is late enough.

    There the record may be before the log's start, and then the answer is none, though a later
    segment has one: until retention takes that segment. A segment without records is as late as
    its file (`LogSegment.largestTimestamp`), and so hides all after it.
    """
    for segment in log.segments.values:
        if segment.largest_timestamp_ms() >= timestamp_ms:
            break
    else:
        return None
    if segment not in log.segments.from_offset(log.log_start_offset):
        return None
    record = _search(log, segment, timestamp_ms)
    if record is None or record.offset >= log.high_watermark:
        return None
    return _found(log, record.offset, record.timestamp_ms)


def _search(log: "PartitionLog", segment: "Segment", timestamp_ms: int) -> "Record | None":
    start_offset = log.log_start_offset
    return segment_times.find_timestamp(segment, timestamp_ms, start_offset, log.headers)


def _found(log: "PartitionLog", offset: int, timestamp_ms: int = NO_TIMESTAMP) -> FoundOffset:
    epoch = log.epochs.epoch_for_offset(offset)
    return FoundOffset(offset, timestamp_ms, -1 if epoch is None else epoch)


def _find_max_timestamp(log: "PartitionLog") -> FoundOffset | None:
    readable = log.segments.from_offset(log.log_start_offset)
    latest = max(readable, key=lambda one: one.largest.timestamp_ms)
    if latest.largest.timestamp_ms < 0:
        return None
    record = _search(log, latest, latest.largest.timestamp_ms)
    return None if record is None else _found(log, record.offset, record.timestamp_ms)
