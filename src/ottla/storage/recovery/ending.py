"""Phase 4: where the log ends, and in which segment it continues.

Damage that was flushed stays: the log then continues in a new segment after all that it held.
Kafka cuts a log there.
"""

import logging

from ottla.base.errors import CorruptionError
from ottla.base.values import dataclass
from ottla.storage.log.header_check import checked_end
from ottla.storage.recovery.damage import end_after_damage
from ottla.storage.recovery.missing_segments import name_missing_end
from ottla.storage.recovery.opened_log import OpenedLog

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEnd:
    end_offset: int
    recovery_point: int


def find_end(log: OpenedLog) -> LogEnd:
    """Afterwards the log has an active segment."""
    request = log.request
    _continue_after_wrong_file(log)
    end = _end_of_segments(log)
    if log.segments.values and end < request.recovery_point:
        name_missing_end(log.segments.active, end, request.recovery_point)
    recovery_point = min(request.recovery_point, end)
    if request.was_clean_stop and end > 0:
        recovery_point = end
    if not log.segments.values:
        end = _start_of_empty(log)
        log.continue_at(end)
        if end > 0:
            # Once its name says the log's start, the next checkpoint does not.
            log.sync_directory()
    return LogEnd(end_offset=end, recovery_point=recovery_point)


def _continue_after_wrong_file(log: OpenedLog) -> None:
    """Where the last segment's file is another's, the log continues after all that it holds."""
    if not log.wrong_files:
        return
    last = log.wrong_files[-1]
    if not log.segments.values or log.segments.active.base_offset < last.base_offset:
        log.continue_at(end_after_damage(last, log.request.known_end))


def _end_of_segments(log: OpenedLog) -> int:
    """Where the log ends; one that ends before its recorded start is emptied."""
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
    """Where the active segment ends; one whose end is damaged becomes an old one."""
    request, active = log.request, log.segments.active
    try:
        end = checked_end(active, request.recovery_point if request.was_clean_stop else None)
        if end >= request.least_end:
            return end
        reason = (
            f"the log ends at offset {end}, and at a clean stop it ended at {request.least_end}"
        )
        raise CorruptionError(active.log.path, active.log.size, reason)
    except CorruptionError as error:
        # Also where the end is lost: another record at an offset that was acknowledged would
        # be taken for the one that is gone.
        end = end_after_damage(active, request.known_end)
        logger.error("%s; it is kept, and the log continues at offset %d", error, end)
        log.continue_at(end)
        return end


def _start_of_empty(log: OpenedLog) -> int:
    """Where a log begins that has no file: at its start, or where it is known to have ended.

    After a crash that is up to where it was flushed; a log that was just being emptied ended
    before its start.
    """
    request = log.request
    start = request.log_start_offset
    end = request.least_end if request.was_clean_stop else request.recovery_point
    when = "at a clean stop" if request.was_clean_stop else "when it was flushed"
    if request.reached > end:
        end, when = request.reached, "by its high watermark"
    if end <= start:
        return start
    logger.error(
        "%s has no file of its log, and %s it had offsets %d to %d; they are lost, and the log "
        "continues at offset %d",
        request.directory, when, start, end - 1, end,
    )  # fmt: skip
    return end
