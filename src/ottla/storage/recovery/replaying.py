"""Phase 3: after a crash, checks every batch from the recovery point on.

The indexes of these segments are rebuilt. Segments after a damaged batch or a hole are dropped, the
last first, and then the damaged tail is truncated, unless it was flushed. Kafka's counterpart:
`LogLoader.recoverLog`.
"""

import logging
from bisect import bisect_right
from collections.abc import Sequence

from ottla.record.batch import Batch
from ottla.storage import scan
from ottla.storage.files.filenames import MAX_OFFSET
from ottla.storage.files.losses import SegmentGap, UnflushedGaps
from ottla.storage.log.epoch_replay import StoredEpochs
from ottla.storage.log.producer_replay import replay_batch
from ottla.storage.log.producer_state import ProducerState
from ottla.storage.recovery.opened_log import OpenedLog
from ottla.storage.segment.segment import Segment
from ottla.storage.segment.segment_recovery import recover

logger = logging.getLogger(__name__)


def recover_segments(log: OpenedLog) -> None:
    request = log.request
    if request.was_clean_stop:
        return
    unflushed = log.segments.from_offset(request.recovery_point)
    gaps, wrong_files = _unflushed_gaps(log), [one.base_offset for one in log.wrong_files]
    end: int | None = None
    for done, segment in enumerate(unflushed):
        request.on_progress(segment.log.path, len(unflushed) - done)
        gap = None if end is None else _gap_between(unflushed[done - 1], end, segment)
        hole = None if gap is None else gaps.hole(segment.log.path, gap, wrong_files)
        if hole is not None:
            from ottla.storage.recovery.damage import name_dropped

            logger.warning("%s; it is dropped with all segments after it", hole.text)
            name_dropped(unflushed[done:], -1)
            log.drop(unflushed[done:])
            return
        is_whole, end = recover_segment(log, segment, after=unflushed[done + 1 :])
        if end <= request.recovery_point:
            # No later start recovers this segment again once the log has rolled.
            segment.sync()
        if not is_whole:
            return


def _unflushed_gaps(log: OpenedLog) -> UnflushedGaps:
    request = log.request
    return UnflushedGaps(
        recovery_point=request.recovery_point,
        tight_from=log.integrity.known.tight_from(request.gaps_before),
        log_start_offset=request.log_start_offset,
        is_same_boot=request.is_same_boot,
    )


def _gap_between(before: Segment, end: int, segment: Segment) -> SegmentGap | None:
    if segment.base_offset == end:
        return None
    first = scan.header_at(segment.log, 0)
    return SegmentGap(
        before=before.base_offset,
        end_offset=end,
        base_offset=segment.base_offset,
        last_offset=None if first is None else first.last_offset,
    )


def recover_segment(
    log: OpenedLog, segment: Segment, *, after: Sequence[Segment] = ()
) -> tuple[bool, int]:
    """Replays one segment on top of the producer state at its start.

    Truncates an unflushed damaged tail, and then drops the segments `after` it. Returns whether
    nothing was truncated, and the offset after the last record.
    """
    snapshots = log.snapshot_files()
    state = ProducerState()
    log.rebuild_producers(state, snapshots, segment.base_offset)
    # After a crash during this recovery, the next one does not replay earlier segments again.
    snapshots.take(state)
    following = scan.header_at(after[0].log, 0) if after else None
    replay = _Replay(log, segment, state, following)
    gapless_from, cleaned_until = _gapless_from(log, segment), log.request.cleaned_until
    valid, damage = recover(segment, replay.take, _limit(log, segment), gapless_from, cleaned_until)
    if not replay.is_of_known_epochs:
        segment.forget_checks(segment.size)
    is_whole = damage is None
    if damage is not None and _is_kept(
        log, segment, valid, state.map_end_offset, has_after=bool(after)
    ):
        from ottla.storage.recovery.damage import keep_flushed

        keep_flushed(segment, damage, replay.take)
        log.has_kept_damage = is_whole = True
    elif damage is not None:
        from ottla.storage.recovery.damage import name_dropped

        name_dropped([segment, *after], valid)
        # Before the truncation, so that after a crash in between the damage is found again.
        log.drop(after)
        size = segment.size - valid
        logger.warning("%s; %d damaged bytes are truncated", damage.text, size)
        segment.log.truncate_to(valid)
    snapshots.take(state)
    return is_whole, state.map_end_offset


def _is_kept(
    log: OpenedLog, segment: Segment, valid: int, end_offset: int, *, has_after: bool
) -> bool:
    """Whether the damage after the first `valid` bytes is no torn append.

    As long as the system runs, an append is torn only at the end of a log, and is incomplete.
    """
    if log.request.was_flushed(end_offset) or end_offset < log.request.written_end:
        return True
    if not log.request.is_same_boot:
        return False
    from ottla.storage.recovery.damage import is_torn

    return has_after or not is_torn(segment, valid)


class _Replay:
    """Updates the log's epochs and producers from a segment's batches."""

    def __init__(
        self, log: OpenedLog, segment: Segment, state: ProducerState, following: Batch | None
    ) -> None:
        self._epochs = log.epochs
        self._segment = segment
        self._state = state
        self._taking = StoredEpochs(log.epochs, following, is_complete=log.knows_epochs)
        self._known_epoch = log.epochs.latest_epoch
        self.is_of_known_epochs = True

    def take(self, batch: Batch) -> None:
        if batch.partition_leader_epoch != self._known_epoch:
            self._taking.take(batch, self._segment.log.path)
            self._known_epoch = self._epochs.latest_epoch
            if batch.partition_leader_epoch != self._known_epoch:
                # The epoch is an earlier one or is damaged: `header_check` decides at the read.
                self.is_of_known_epochs = False
        replay_batch(self._state, batch, self._segment)


def _limit(log: OpenedLog, segment: Segment) -> int:
    """The base offset of the next segment, before which this segment's offsets end."""
    following = bisect_right(log.base_offsets, segment.base_offset)
    return [*log.base_offsets, MAX_OFFSET][following]


def _gapless_from(log: OpenedLog, segment: Segment) -> int:
    """The offset from which a segment has no gaps; only for the active one, never compacted."""
    gapless_from = log.integrity.known.gapless_from
    is_active = segment.base_offset == log.base_offsets[-1]
    return MAX_OFFSET if gapless_from is None or not is_active else gapless_from
