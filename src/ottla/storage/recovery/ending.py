"""Phase 4: finds the log end offset, and the segment in which the log continues.

Damaged batches that were flushed are kept: the log then continues in a new segment, after every
offset that it had. Kafka truncates the log at the damage.
"""

import logging

from ottla.base.errors import CorruptionError
from ottla.base.values import dataclass
from ottla.storage.damage_scan import MAX_OFFSETS
from ottla.storage.files.filenames import BOOT_NOTE, INTEGRITY
from ottla.storage.files.losses import lost_end
from ottla.storage.findings import Finding, FindingKind, finding_of
from ottla.storage.log.header_check import checked_end
from ottla.storage.recovery.missing_segments import name_missing_end
from ottla.storage.recovery.opened_log import OpenedLog

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEnd:
    """The result of phase 4."""

    end_offset: int
    recovery_point: int


def find_end(log: OpenedLog) -> LogEnd:
    """Finds the log's end, and creates an active segment if the log has no usable one."""
    request = log.request
    _continue_after_wrong_file(log)
    end = _end_of_segments(log)
    if log.segments.values and end < request.recovery_point:
        name_missing_end(log.segments.active, end, request.recovery_point)
    recovery_point = min(request.recovery_point, end)
    if request.was_clean_stop and end > 0:
        recovery_point = end
    if log.has_kept_damage and recovery_point < end:
        # No later start, perhaps after a power failure, shall take the damage for a torn end.
        for segment in log.segments.from_offset(recovery_point):
            segment.sync()
        log.sync_directory()
        recovery_point = end
    if not log.segments.values:
        end = _start_of_empty(log)
        log.continue_at(end)
        if end > 0:
            # The next log start checkpoint may omit a start that is a segment's base offset, so
            # the file's name must be durable.
            log.sync_directory()
    return LogEnd(end_offset=end, recovery_point=recovery_point)


def _continue_after_wrong_file(log: OpenedLog) -> None:
    """Adds a new segment if the last segment's file belongs to another segment."""
    if not log.wrong_files:
        return
    last = log.wrong_files[-1]
    from ottla.storage.recovery.damage import end_after_damage

    if not log.segments.values or log.segments.active.base_offset < last.base_offset:
        log.continue_at(end_after_damage(last, log.request.known_end))


def _end_of_segments(log: OpenedLog) -> int:
    """The log's end; a log that ends before its recorded start is emptied."""
    if not log.segments.values:
        return 0
    end = _end_of_active(log)
    start = log.request.log_start_offset
    if end >= start:
        return end
    logger.warning(
        "%s ends at offset %d, before its recorded start %d: it is emptied and continues there",
        log.request.directory, end, start,
    )  # fmt: skip
    log.drop(log.segments.values)
    log.epochs.clear()
    log.snapshot_files().remove_outside(start, start)
    return start


def _end_of_active(log: OpenedLog) -> int:
    """The end of the active segment; if it is damaged or lost, adds a new active segment."""
    request, active = log.request, log.segments.active
    try:
        end = checked_end(active, request.recovery_point if request.was_clean_stop else None)
        lost = lost_end(active.log.path, end, listed=log.lost_end, written=request.written_end)
        if end < request.least_end:
            at_stop = f"at its clean shutdown it ended at {request.least_end}"
            lost = Finding(
                kind=FindingKind.LOST_OFFSETS,
                path=active.log.path,
                position=active.log.size,
                reason=f"the log ends at offset {end}, but {at_stop}",
            )
        if lost is None:
            return end
    except CorruptionError as error:
        lost = finding_of(FindingKind.LOG_DAMAGE, error)
    from ottla.storage.recovery.damage import end_after_damage

    # A lost end is not reused either: consumers would take a new record at an acknowledged
    # offset for the lost one.
    end = end_after_damage(active, request.known_end, trusts_headers=request.is_same_boot)
    end = max(end, _end_of_lost(log))
    log.has_kept_damage = True
    logger.error("%s; it is kept, and the log continues at offset %d", lost.text, end)
    log.continue_at(end)
    return end


def _end_of_lost(log: OpenedLog) -> int:
    """The offset after all that missing last segments may have had; 0 if none is missing.

    If nothing says how many records a segment had that was still written to, no segment spans more
    offsets than its indexes can hold.
    """
    written = log.request.written_end
    if written or not log.lost_end or log.request.was_clean_stop:
        return max(log.lost_end, written)
    return log.lost_end - 1 + MAX_OFFSETS


def _witness(log: OpenedLog) -> str:
    """The file that says how far a log reached which has lost its end."""
    return BOOT_NOTE if log.request.written_end > log.lost_end else f"its {INTEGRITY}"


def _start_of_empty(log: OpenedLog) -> int:
    """The base offset for a log without files: its recorded start or, if later, its last end.

    After a crash the last end is the recovery point. It is before the start if the crash came
    while the log was being emptied.
    """
    request = log.request
    start = request.log_start_offset
    end = request.least_end if request.was_clean_stop else request.recovery_point
    when = "at its clean shutdown" if request.was_clean_stop else "at its last flush"
    if request.reached > end:
        end, when = request.reached, "by its high watermark"
    if max(log.lost_end, request.written_end) > end:
        end, when = _end_of_lost(log), f"by {_witness(log)}"
    if end <= start:
        return start
    but = ", but for those in the tier" if request.is_tiered else ""
    logger.error(
        "%s has no log file, but %s it had offsets %d to %d; they are lost%s, and the log "
        "continues at offset %d",
        request.directory, when, start, end - 1, but, end,
    )  # fmt: skip
    return end
