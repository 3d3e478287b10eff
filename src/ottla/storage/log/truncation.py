"""Cutting a log: from behind when it diverged, from the front when records may go.

A crash between two steps leaves a log that recovery brings to one end: segments behind a cut are
removed from the last to the first, so what remains is always a prefix. Kafka's counterpart:
`UnifiedLog.truncateTo`, `truncateFullyAndStartAt`, `maybeIncrementLogStartOffset`.
"""

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.storage.log.deleted_segment import DeletedSegment
from ottla.storage.log.partition_log import PartitionLog
from ottla.storage.log.producer_replay import rebuild_producers
from ottla.storage.segment.segment import Segment


def truncate_to(log: PartitionLog, offset: int, *, now_ms: int) -> bool:
    """Removes every batch that reaches `offset` or beyond; tells if there was any.

    Raises `StorageError`.
    """
    log.write_out()
    if offset >= log.log_end_offset:
        return False
    if offset <= log.segments.first.base_offset:
        truncate_fully_and_start_at(log, offset, now_ms=now_ms)
        return True
    with log.disk():
        behind = [one for one in log.segments.values if one.base_offset > offset]
        _remove(log, behind)
        # A later segment that came back behind a cut one would make one log of two histories.
        log.sync_directory()
        log.segments.active.truncate_to(offset)
        # The indexes too: rolled from here, the segment would end below the recovery point, and
        # nothing would compare with it what a power failure puts back into them.
        log.segments.active.sync()
        end = log.segments.active.next_offset()
        log.epochs.truncate_from_end(end)
        log.offsets.truncated(end)
        log.seams.truncated(end)
        log.witness.went_back(end)
        rebuild_producers(
            log.producers,
            log.snapshots,
            log.segments,
            log_start_offset=log.log_start_offset,
            until_offset=end,
        )
        log.producers.high_watermark_moved(log.high_watermark)
        log.offsets.first_unstable_offset = log.producers.first_unstable_offset
        log.offsets.check()
        _keep_cut(log)
    return True


def truncate_fully_and_start_at(log: PartitionLog, offset: int, *, now_ms: int) -> None:
    """Empties the log; it goes on at `offset`. Raises `StorageError`."""
    log.write_out()
    with log.disk():
        _remove(log, list(log.segments.values))
        log.epochs.clear()
        for snapshot in list(log.snapshots.offsets):
            log.snapshots.remove(snapshot)
        # Last, or what is still there of the old log would be taken for the new one's.
        log.segments.add(log.new_segment(offset, now_ms))
        log.producers.clear(offset)
        log.offsets.restarted(offset)
        log.seams.restarted(offset)
        log.witness.went_back(offset)
        _keep_cut(log)


def _keep_cut(log: PartitionLog) -> None:
    """Makes what was removed stay removed, before anything is written in its place.

    A producer snapshot of the old history would be taken for one of the new, and a recovery point
    from before the cut would vouch for batches that were never flushed.
    """
    log.sync_directory()
    log.on_cut()


def _remove(log: PartitionLog, segments: list[Segment]) -> None:
    """Deletes segments, the last first."""
    for segment in reversed(segments):
        log.segments.remove([segment])
        segment.delete()


def delete_records_before(log: PartitionLog, offset: int) -> int:
    """Moves the log's start up to `offset` (-1: the high watermark); returns where it is now.

    Readers see it at once; files go when retention comes by. Raises
    `ApiError(OFFSET_OUT_OF_RANGE)` beyond the high watermark.
    """
    wanted = log.high_watermark if offset == -1 else offset
    if not 0 <= wanted <= log.high_watermark:
        raise ApiError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"{log.name}: {wanted} lies beyond the high watermark {log.high_watermark}.",
        )
    if wanted > log.log_start_offset:
        with log.disk():
            log.offsets.move_log_start(wanted)
            log.epochs.truncate_from_start(wanted)
            log.producers.log_start_moved(wanted)
            log.offsets.first_unstable_offset = log.producers.first_unstable_offset
    return log.log_start_offset


def delete_segments_below_start(
    log: PartitionLog, *, max_count: int | None = None, durably: bool = True
) -> list[DeletedSegment]:
    """Takes segments that lie wholly below the log's start out of it, the oldest first.

    The log's start must be on the disk already (the caller's checkpoint), or a crash would bring a
    start back that has no file. Never the active segment. The caller removes the files, later.
    Who goes on soon need not have it made durable yet (`durably=False`): the start stays in the
    checkpoint until then, and hides what a crash would bring back. Raises `StorageError`.
    """
    with log.disk():
        gone = log.segments.wholly_below(log.log_start_offset)[:max_count]
        if not gone:
            return []
        log.segments.remove_oldest(len(gone))
        retired = [log.retire(segment) for segment in gone]
        # The next checkpoint leaves out a start that the first file's name tells.
        log.offsets.is_front_unsynced = True
        if durably:
            log.sync_directory()
            log.offsets.is_front_unsynced = False
    return retired
