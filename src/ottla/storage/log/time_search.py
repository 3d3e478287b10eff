"""Finds the first record at or after a timestamp in one segment.

The search starts at the time index entry and goes from header to header. The CRC of each skipped
batch, which covers the largest timestamp, and its header (`header_check`) are checked. Kafka's
counterpart: `LogSegment.findOffsetByTimestamp`.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError, CorruptionError
from ottla.codec.unpacking import UnpackedMemory
from ottla.record.batch import InvalidBatchError
from ottla.record.record import Record, records_in_turns
from ottla.storage import scan
from ottla.storage.files.log_file import LogFile
from ottla.storage.segment.segment_view import OURS

if TYPE_CHECKING:
    from ottla.storage.log.header_check import HeaderCheck
    from ottla.storage.segment.segment import Segment


def find_timestamp(
    segment: "Segment", timestamp_ms: int, from_offset: int, headers: "HeaderCheck"
) -> Record | None:
    """The first record at or after `from_offset` with at least that timestamp; `None` without one.

    Raises `CorruptionError` for damage in the searched batches, and `ApiError` if the segment was
    deleted meanwhile.
    """
    start_offset = max(segment.search_start_offset(timestamp_ms), from_offset)
    position = segment.search_start(start_offset)
    record, end = _first_after(segment, position, timestamp_ms, from_offset)
    if segment.log.is_closed:
        # The segment was deleted while other requests had their turn; the client retries.
        raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    headers.check(segment, start_offset, position, end)
    return record


def _first_after(
    segment: "Segment", position: int, timestamp_ms: int, from_offset: int
) -> tuple[Record | None, int]:
    """The record, and the position up to which it was searched for."""
    log = segment.log
    for found, header in scan.headers(log, position):
        if header.last_offset < from_offset:
            continue
        if header.max_timestamp_ms < timestamp_ms:
            if segment.trust is not OURS:
                scan.sound_batch(log, found)
            continue
        memory = UnpackedMemory()
        records = _records(log, found, memory)
        wanted = (
            one for one in records if one.timestamp_ms >= timestamp_ms and one.offset >= from_offset
        )
        record = next(wanted, None)
        memory.give_back()
        if record is not None:
            return record, found + header.size
        if log.is_closed:
            break
    return None, log.written_size


def _records(log: LogFile, position: int, memory: UnpackedMemory) -> Iterator[Record]:
    """The records of the batch at a position; raises `CorruptionError` for a damaged one."""
    batch = scan.sound_batch(log, position)
    try:
        yield from records_in_turns(batch, memory)
    except InvalidBatchError as error:
        raise CorruptionError(log.path, position, str(error)) from error
