"""Phase 2: opens every `.log` file as a segment, and rebuilds missing and wrong indexes.

Indexes without a log file are removed. A log file that belongs to another segment is kept, but
not served. Kafka's counterpart: `LogLoader.loadSegmentFiles`.
"""

import logging
from bisect import bisect_right

from ottla.base.errors import CorruptionError
from ottla.base.files import join, remove_if_present
from ottla.storage.files.filenames import (
    MAX_OFFSET,
    SEGMENT_KINDS,
    SET_ASIDE,
    FileKind,
    FileSuffix,
    parse_file_names,
)
from ottla.storage.files.integrity import changed_index
from ottla.storage.recovery.opened_log import OpenedLog
from ottla.storage.recovery.replaying import recover_segment
from ottla.storage.recovery.transaction_check import check_transactions
from ottla.storage.segment.partition_files import empty_log, missing_index, orphan_index
from ottla.storage.segment.segment import Segment
from ottla.storage.segment.segment_facts import wrong_file
from ottla.storage.segment.segment_recovery import has_true_last_entries

logger = logging.getLogger(__name__)


def open_segments(log: OpenedLog) -> None:
    indexes = _list_indexes(log)
    log.base_offsets = sorted(indexes)
    if log.request.is_complete and log.request.integrity is not None:
        log.lost_end = log.request.integrity.end_of_missing(log.base_offsets)
    recovered_from = _first_to_recover(log)
    followings = [*log.base_offsets, None][1:]
    for base_offset, following in zip(tuple(log.base_offsets), followings, strict=True):
        segment = log.open_segment(base_offset)
        if not segment.size and _is_set_aside(log, segment):
            continue
        if _is_wrong_file(log, segment):
            log.wrong_files.append(segment)
            continue
        log.segments.add(segment)
        # Phase 3 recovers these, once all segments before them are open.
        if base_offset >= recovered_from:
            continue
        is_sane = _has_sane_indexes(log, segment, indexes[base_offset])
        if not is_sane or (following == recovered_from and not has_true_last_entries(segment)):
            recover_segment(log, segment)
            segment.sync()


def _list_indexes(log: OpenedLog) -> dict[int, set[FileKind]]:
    """The kinds of files that each segment has; removes indexes without a log file."""
    file_system, directory = log.request.file_system, log.request.directory
    listed = parse_file_names(
        file_system.list(directory), kinds=SEGMENT_KINDS, suffixes=[FileSuffix.LIVE]
    )
    indexes: dict[int, set[FileKind]] = {
        one.offset: set() for one in listed if one.kind is FileKind.LOG
    }
    first = min(indexes, default=None)
    for one in listed:
        if one.offset in indexes:
            indexes[one.offset].add(one.kind)
        else:
            path = join(directory, one.text)
            found = orphan_index(path, one.offset, first)
            logger.warning("%s; it is removed", found.text)
            remove_if_present(file_system, path)
    return indexes


def _first_to_recover(log: OpenedLog) -> int:
    """The base offset of the segment with the recovery point; MAX_OFFSET after a clean shutdown."""
    if log.request.was_clean_stop:
        return MAX_OFFSET
    index = bisect_right(log.base_offsets, log.request.recovery_point) - 1
    return log.base_offsets[index] if index >= 0 else 0


def _is_set_aside(log: OpenedLog, segment: Segment) -> bool:
    """Sets an empty segment aside that lies inside another."""
    file_system, base_offset = log.request.file_system, segment.base_offset
    before = log.segments.active.base_offset if log.segments.values else None
    found = empty_log(file_system, log.request.directory, base_offset, before)
    if found is None:
        return False
    logger.error("%s; it is set aside", found.text)
    *indexes, path = segment.files()
    segment.close_files()
    for one in indexes:
        remove_if_present(file_system, one)
    file_system.rename(path, path + SET_ASIDE)
    log.base_offsets.remove(base_offset)
    return True


def _is_wrong_file(log: OpenedLog, segment: Segment) -> bool:
    found = wrong_file(segment.log, log.integrity.of_segment(segment.base_offset))
    if found is not None:
        logger.error("%s; it is kept, and not served", found.text)
    return found is not None


def _has_sane_indexes(log: OpenedLog, segment: Segment, kinds: set[FileKind]) -> bool:
    request = log.request
    missing = [one for one in (FileKind.OFFSET_INDEX, FileKind.TIME_INDEX) if one not in kinds]
    if missing:
        is_flushed = request.was_clean_stop or segment.base_offset < request.recovery_point
        for kind in missing if is_flushed else ():
            found = missing_index(request.directory, segment.base_offset, kind)
            logger.warning("%s; it is rebuilt", found.text)
        return False
    index, facts = segment.transaction_index.path, log.integrity.of_segment(segment.base_offset)
    changed = changed_index(request.file_system, index, facts)
    if changed is not None:
        logger.warning("%s; the segment's indexes are rebuilt", changed.text)
        return False
    try:
        segment.transaction_index.sanity_check()
        check_transactions(segment, log.segments, gaps_before=request.gaps_before)
    except CorruptionError as error:
        logger.warning("%s; the segment's indexes are rebuilt", error)
        return False
    return True
