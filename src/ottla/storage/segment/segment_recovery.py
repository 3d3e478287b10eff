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
        walk = _Recovery(segment, view, on_batch, (gapless_from, cleaned_until))
        damage = walk.run(limit)
    finally:
        view.release()
    segment.close_indexes_off()
    segment.forget_checks(0 if damage is None else log.size)
    return walk.valid, damage


class _Recovery:
    """The walk over one segment; the first `valid` bytes are sound."""

    def __init__(
        self,
        segment: Segment,
        view: memoryview,
        on_batch: Callable[[Batch], None],
        gaps: tuple[int, int],
    ) -> None:
        self._segment = segment
        self._log = segment.log
        self._view = view
        self._on_batch = on_batch
        self._gapless_from, self._cleaned_until = gaps
        self._next_offset = segment.base_offset
        self.valid = 0

    def run(self, limit: int) -> Finding | None:
        """Takes the batches up to the first that is damaged or out of place."""
        path = self._log.path
        batches = scan.batches(self._view, path, checks=(scan.checksum,))
        while True:
            try:
                found = next(batches, None)
            except CorruptionError as error:
                return finding_of(FindingKind.LOG_DAMAGE, error)
            if found is None:
                return None
            reason = self._take(*found, limit)
            if reason is not None:
                kind = FindingKind.LOG_DAMAGE
                return Finding(kind=kind, path=path, position=found[0], reason=reason)

    def _take(self, position: int, batch: Batch, limit: int) -> str | None:
        """Indexes a batch, or returns the reason why it is out of place."""
        segment, log, next_offset = self._segment, self._log, self._next_offset
        is_tight = next_offset >= self._gapless_from
        is_gap = batch.magic == 2 and batch.base_offset != next_offset
        if is_gap and is_tight and is_flipped_offset(batch, next_offset):
            log.stamp_base_offset(position, next_offset)
            batch = batch_at(self._view, position)
            is_gap = False
        reason = None
        if is_gap and is_tight and position == 0:
            # The file's name gives its first offset too, so the file is another log's.
            reason = f"the first batch begins at offset {batch.base_offset}"
        elif is_gap:
            reason = damaged_offset(batch, next_offset, limit, self._view)
        elif batch.last_offset < next_offset:
            reason = scan.out_of_place(batch, 0, next_offset, limit)
        if reason is not None:
            return reason
        end = position + batch.size
        if is_gap and (is_tight or end == len(self._view)) and not self._may_have_gap(limit):
            warn_of_gap(log, position, next_offset, batch.base_offset)
        if batch.last_offset > segment.base_offset + INT32_MAX:
            raise OffsetOverflowError(log, segment.base_offset, position, batch.last_offset)
        segment.index(position, batch)
        self._on_batch(batch)
        self.valid = end
        self._next_offset = batch.last_offset + 1
        return None

    def _may_have_gap(self, limit: int) -> bool:
        """Whether compaction may have left the gap; an active segment is never compacted."""
        is_compacted = self._segment.is_compacted and limit < MAX_OFFSET
        return is_compacted or self._next_offset < self._cleaned_until


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
