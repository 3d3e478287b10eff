"""Recovers a partition's directory to a consistent log, phase by phase. Each phase is a function
from the findings of earlier phases to changes of the files. Kafka's counterpart: `LogLoader`.
Recovering twice changes nothing.
"""

from ottla.storage.log.state import RecoveredLog
from ottla.storage.recovery.ending import find_end
from ottla.storage.recovery.leftovers import finish_leftovers
from ottla.storage.recovery.opened_log import LoadRequest, OpenedLog
from ottla.storage.recovery.opening import open_segments
from ottla.storage.recovery.reconciling import reconcile
from ottla.storage.recovery.replaying import recover_segments
from ottla.storage.segment.log_order import OffsetOverflowError
from ottla.storage.segment.splitting import split_segment


def recover(request: LoadRequest) -> RecoveredLog:
    """Loads a partition directory, repairing what a crash left; raises `OSError` as it comes."""
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
    """A segment whose offsets do not fit its indexes is split, and all are opened again."""
    file_system, directory = log.request.file_system, log.request.directory
    while True:
        finish_leftovers(file_system, directory)
        try:
            open_segments(log)
            recover_segments(log)
            return
        except OffsetOverflowError as overflow:
            log.integrity.split(overflow.base_offset)
            split_segment(file_system, directory, overflow.log, overflow.base_offset)
            log.forget_segments()
