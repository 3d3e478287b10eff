"""Where in a segment a time is: by its time index, as far as the log bears it out.

Neither the index nor a search that steps from header to header is believed: an entry is held
against the batch that it names, and of the batches that a search passes over the checksum is looked
at, which covers the largest timestamp, and at its place (`header_check`). Where index and batch
differ and the batch's checksum is wrong, the index is right. Kafka's counterpart:
`LogSegment.findOffsetByTimestamp`.
"""

import logging
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError, CorruptionError
from ottla.base.turns import aside, in_turns
from ottla.record.batch import InvalidBatchError
from ottla.record.record import Record, read_records
from ottla.storage import scan
from ottla.storage.files.log_file import LogFile
from ottla.storage.index.time_index import NO_TIMESTAMP

if TYPE_CHECKING:
    from ottla.storage.log.header_check import HeaderCheck
    from ottla.storage.segment.segment import Segment

logger = logging.getLogger(__name__)


def find_timestamp(
    segment: "Segment", timestamp_ms: int, from_offset: int, headers: "HeaderCheck"
) -> Record | None:
    """The first record at or after `from_offset` whose timestamp is that or later.

    Raises `CorruptionError` where damage could hide it, or has changed where it says it is.
    """
    start_offset = max(_search_start(segment, timestamp_ms), from_offset)
    position = segment.search_start(start_offset)
    record, end = _first_behind(segment, position, timestamp_ms, from_offset)
    if segment.log.is_closed:
        # Taken by retention, or by a deletion, while others had their turn: ask again.
        raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    headers.check(segment, start_offset, position, end)
    return record


def _first_behind(
    segment: "Segment", position: int, timestamp_ms: int, from_offset: int
) -> tuple[Record | None, int]:
    """The record, and how far it was searched for from a position on."""
    log = segment.log
    for found, header in scan.headers(log, position):
        if header.last_offset < from_offset:
            continue
        if header.max_timestamp_ms < timestamp_ms:
            if not segment.is_index_ours:
                scan.sound_batch(log, found)
            continue
        for record in _in_turns(_records(log, found)):
            if record.timestamp_ms >= timestamp_ms and record.offset >= from_offset:
                return record, found + header.size
        if log.is_closed:
            break
    return None, log.written_size


def _records(log: LogFile, position: int) -> Iterator[Record]:
    """The records of the batch at a position; raises `CorruptionError` for a damaged one."""
    batch = scan.sound_batch(log, position)
    try:
        yield from read_records(batch)
    except InvalidBatchError as error:
        raise CorruptionError(log.path, position, str(error)) from error


def _in_turns(records: Iterator[Record]) -> Iterable[Record]:
    """The first one comes when all of the batch has been unpacked, out of memory."""
    first = aside(lambda: next(records, None))
    return iter(()) if first is None else chain((first,), in_turns(records))


def indexed_largest(segment: "Segment") -> tuple[int, int]:
    """The last entry of the time index, as (timestamp_ms, offset), made anew where it is wrong."""
    timestamp_ms, offset = segment.time_index.last_entry
    if segment.time_index.entry_count == 0:
        return NO_TIMESTAMP, offset
    try:
        if not _has_timestamp(segment, timestamp_ms, offset):
            _rebuild(segment, timestamp_ms, offset)
            return segment.time_index.last_entry
    except CorruptionError as error:
        logger.error("%s; its time index is believed", error)
    return timestamp_ms, offset


def _search_start(segment: "Segment", timestamp_ms: int) -> int:
    """An offset before which no record is as late as a time: the index's, once checked."""
    found_ms, offset = segment.time_index.lookup(timestamp_ms)
    if found_ms == NO_TIMESTAMP or _has_timestamp(segment, found_ms, offset):
        return offset
    _rebuild(segment, found_ms, offset)
    return segment.time_index.lookup(timestamp_ms)[1]


def _has_timestamp(segment: "Segment", timestamp_ms: int, offset: int) -> bool:
    """Whether a time is the largest of the batch that holds an offset.

    Raises `CorruptionError` for a batch that does not say so, but is damaged.
    """
    if segment.is_index_ours:
        return True
    found = segment.translate(offset)
    header = None if found is None else scan.header_at(segment.log, found.position)
    if found is None or header is None:
        return False
    if header.max_timestamp_ms != timestamp_ms:
        scan.sound_batch(segment.log, found.position)
        return False
    return True


def _rebuild(segment: "Segment", timestamp_ms: int, offset: int) -> None:
    logger.warning(
        "%s: offset %d does not carry the time %d in %s; the indexes are made anew",
        segment.time_index.path, offset, timestamp_ms, segment.log.path,
    )  # fmt: skip
    segment.rebuild_indexes()


def has_true_last_entries(segment: "Segment") -> bool:
    """Whether the indexes of an ended segment end as its log does.

    A roll or a cut behind the last flush has changed them since, perhaps not on the disk. Searches
    by time and retention judge by the last time entry (Kafka would take the one before it). Below
    the log's start, which counts as flushed, the log itself may be damaged.
    """
    index = segment.offset_index
    try:
        if index.entry_count:
            offset, position = index.entry(index.entry_count - 1)
            last = scan.header_at(segment.log, position)
            if last is None or last.last_offset > offset:
                return False
        # Of the index itself: of a short log `largest` is read from the batches.
        timestamp_ms, indexed_offset = segment.time_index.last_entry
        found = segment.translate(indexed_offset)
        behind = scan.headers(segment.log, found.position if found else 0)
        return all(header.max_timestamp_ms <= timestamp_ms for _, header in behind)
    except CorruptionError:
        return False
