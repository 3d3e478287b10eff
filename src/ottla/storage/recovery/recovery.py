"""Recovers a partition's directory to a consistent log, in five phases.

Each phase is a function that works on the results of earlier phases and repairs the files.
Recovery is idempotent. Kafka's counterpart: `LogLoader`.
"""

from ottla.storage.log.state import RecoveredLog
from ottla.storage.recovery.ending import find_end
from ottla.storage.recovery.leftovers import finish_leftovers, finish_split
from ottla.storage.recovery.opened_log import LoadRequest, OpenedLog
from ottla.storage.recovery.opening import open_segments
from ottla.storage.recovery.reconciling import reconcile
from ottla.storage.recovery.replaying import recover_segments
from ottla.storage.segment.log_order import OffsetOverflowError


def recover(request: LoadRequest) -> RecoveredLog:
    """Loads a partition directory, creates it if missing, and repairs it; raises `OSError`."""
    log = OpenedLog(request)
    request.file_system.make_directory(request.directory)
    try:
        _load_segments(log)
        recovered = reconcile(log, find_end(log))
    except BaseException:
        log.forget_segments()
        raise
    for segment in log.wrong_files:
        segment.close_files()
    return recovered


def _load_segments(log: OpenedLog) -> None:
    """Phases 1 to 3; they start again after a segment with too wide an offset span is split."""
    file_system, directory = log.request.file_system, log.request.directory
    while True:
        finish_leftovers(file_system, directory, log.request.integrity)
        try:
            open_segments(log)
            recover_segments(log)
            return
        except OffsetOverflowError as overflow:
            from ottla.storage.segment.splitting import split_segment

            log.integrity.split(overflow.base_offset)
            made = split_segment(file_system, directory, overflow.log, overflow.base_offset)
            log.forget_segments()
            finish_split(file_system, directory, made)
