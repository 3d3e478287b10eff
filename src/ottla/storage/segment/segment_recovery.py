"""Recovers one segment after a crash: checks its batches and rebuilds its indexes from them.

Format pages: docs/format/README.md lists the files. Kafka's counterpart: `LogSegment.recover`.
"""

from collections.abc import Callable

from ottla.base.errors import CorruptionError
from ottla.config.setting import INT32_MAX
from ottla.record.batch import Batch, batch_at
from ottla.storage import scan
from ottla.storage.files.filenames import MAX_OFFSET
from ottla.storage.findings import Finding, FindingKind, finding_of
from ottla.storage.segment.log_order import (
    OffsetOverflowError,
    damaged_offset,
    is_flipped_offset,
    warn_of_gap,
)
from ottla.storage.segment.segment import Segment


def recover(
    segment: Segment,
    on_batch: Callable[[Batch], None],
    limit: int = MAX_OFFSET,
    gapless_from: int = MAX_OFFSET,
    cleaned_until: int = 0,
) -> tuple[int, Finding | None]:
    """Checks every batch and rebuilds the indexes.

    Returns the number of sound bytes, and what is wrong with the batch after them. `on_batch` is
    called with each sound batch in order (for producer state and epochs). Their offsets end before
    `limit`. From `gapless_from` on there should be no gaps: a base offset with one flipped bit is
    repaired in the file, and another gap is logged. Gaps before `cleaned_until` come from
    compaction, whatever the topic's policy is now. Nothing is truncated: the caller drops the
    segments after this one first. Raises `OffsetOverflowError` if the segment must be split.
    """
    segment.begin_indexes_again()
    segment.transaction_index.delete()
    log = segment.log
    view = log.map()
    try:
        valid, damage = _recover_batches(
            segment, view, on_batch, limit, (gapless_from, cleaned_until)
        )
    finally:
        view.release()
    segment.close_indexes_off()
    segment.forget_checks(0 if damage is None else log.size)
    return valid, damage


def _recover_batches(
    segment: Segment,
    view: memoryview,
    on_batch: Callable[[Batch], None],
    limit: int,
    gaps: tuple[int, int],
) -> tuple[int, Finding | None]:
    gapless_from, cleaned_until = gaps
    log = segment.log
    valid = 0
    next_offset = segment.base_offset
    max_offset = segment.base_offset + INT32_MAX
    # An active segment is never compacted.
    may_have_gaps = segment.is_compacted and limit < MAX_OFFSET
    try:
        for position, batch in scan.batches(view, log.path, checks=(scan.checksum,)):
            is_gap = batch.magic == 2 and batch.base_offset != next_offset
            if is_gap and next_offset >= gapless_from and is_flipped_offset(batch, next_offset):
                log.stamp_base_offset(position, next_offset)
                batch = batch_at(view, position)
                is_gap = False
            last_offset, end = batch.last_offset, position + batch.size
            if is_gap or last_offset < next_offset:
                is_first = position == 0 and next_offset >= gapless_from
                reason = _out_of_order(batch, view, next_offset, limit, is_first=is_first)
                if reason is not None:
                    raise CorruptionError(log.path, position, reason)
            is_known = may_have_gaps or next_offset < cleaned_until
            is_suspect = end == len(view) or next_offset >= gapless_from
            if is_gap and is_suspect and not is_known:
                warn_of_gap(log, position, next_offset, batch.base_offset)
            if last_offset > max_offset:
                raise OffsetOverflowError(log, segment.base_offset, position, last_offset)
            segment.index(position, batch)
            on_batch(batch)
            valid = end
            next_offset = last_offset + 1
    except CorruptionError as error:
        # The caller splits the segment; other files are not this one's damage.
        if isinstance(error, OffsetOverflowError) or error.path != log.path:
            raise
        return valid, finding_of(FindingKind.LOG_DAMAGE, error)
    return valid, None


def _out_of_order(
    batch: Batch, view: memoryview, next_offset: int, limit: int, *, is_first: bool
) -> str | None:
    """The reason why a batch is not taken that does not begin at the next offset.

    `is_first` says that it is the first of a file without gaps.
    """
    if batch.magic == 2 and is_first:
        # The file's name gives its first offset too, so the file is another log's.
        return f"the first batch begins at offset {batch.base_offset}"
    if batch.magic == 2:
        return damaged_offset(batch, next_offset, limit, view)
    return scan.out_of_place(batch, 0, next_offset, limit)


def has_true_last_entries(segment: Segment) -> bool:
    """Whether the last index entries of an inactive segment match its log.

    A roll or truncation after the last flush changes the indexes, and the change may not have
    reached the disk. Searches by time and retention depend on the last time entry (Kafka would use
    the entry before it). Before the log start, which counts as flushed, the log itself may be
    damaged.
    """
    index = segment.offset_index
    try:
        if index.entry_count:
            offset, position = index.entry(index.entry_count - 1)
            last = scan.header_at(segment.log, position)
            if last is None or last.last_offset > offset:
                return False
        # Not `largest`, which is read from the batches if the log is short.
        timestamp_ms, indexed_offset = segment.time_index.last_entry
        found = segment.translate(indexed_offset)
        after = scan.headers(segment.log, found.position if found else 0)
        return all(header.max_timestamp_ms <= timestamp_ms for _, header in after)
    except CorruptionError:
        return False
