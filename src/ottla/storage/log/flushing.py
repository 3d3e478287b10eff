"""fsync in three steps, so that the slow one needs no lock: plan, carry out, finish.

The recovery point moves only in `finish`, after every fsync of the plan has succeeded. A crash in
between leaves it where it was, and recovery checks more than it had to. Kafka's counterpart:
`UnifiedLog.flush`, which rolling schedules on another thread.
"""

import contextlib
from dataclasses import dataclass

from ottla.base.files import FileSystem, sync_file
from ottla.storage.log.partition_log import PartitionLog


@dataclass(frozen=True, slots=True, kw_only=True)
class FlushPlan:
    """Files that hold everything from the recovery point up to `until_offset`."""

    log: PartitionLog
    flushed_from: int
    until_offset: int
    cut_count: int
    paths: tuple[str, ...]


def plan_flush(log: PartitionLog, until_offset: int) -> FlushPlan | None:
    """What must be synced for `until_offset` to be safe; `None` when it is already."""
    recovery_point = log.offsets.recovery_point
    if until_offset <= recovery_point:
        return None
    paths = [
        path
        # The one of the last flushed record too: if it has been ended since, its indexes changed.
        for segment in log.segments.from_offset(recovery_point - 1)
        if segment.base_offset < until_offset
        for path in segment.files()
    ]
    paths += log.snapshots.paths(recovery_point, until_offset)
    return FlushPlan(
        log=log,
        flushed_from=recovery_point - 1,
        until_offset=until_offset,
        cut_count=log.offsets.cut_count,
        paths=tuple(paths),
    )


def due_flush(
    log: PartitionLog, monotonic_ms: float, *, is_short_of_files: bool = False
) -> FlushPlan | None:
    """The flush that a roll or `flush.ms` has made due, if any.

    Where too many files are open, whatever was written is due: without it they may not be closed.
    """
    # The log may have been cut since it rolled.
    rolled_until = min(log.rolled_until, log.log_end_offset)
    if rolled_until > log.offsets.recovery_point:
        return plan_flush(log, rolled_until)
    if log.high_watermark > log.offsets.recovery_point and (
        is_short_of_files or monotonic_ms - log.last_flush_ms >= log.config.flush_ms
    ):
        return plan_flush(log, log.high_watermark)
    return None


def carry_out(plan: FlushPlan, file_system: FileSystem) -> None:
    """Syncs the plan's files; may run beside appends, in another thread. Raises `OSError`.

    Each file is opened anew: the log may close or delete its own meanwhile, and what is gone needs
    no sync.
    """
    for path in plan.paths:
        with contextlib.suppress(FileNotFoundError):
            sync_file(file_system, path)
    with contextlib.suppress(FileNotFoundError):
        file_system.sync_directory(plan.log.directory)


def finish(plan: FlushPlan, monotonic_ms: float) -> None:
    """Moves the recovery point, unless the log was cut since: what is there now may be new."""
    log = plan.log
    if log.offsets.cut_count == plan.cut_count:
        log.offsets.flushed(plan.until_offset)
        active = log.segments.active
        for segment in log.segments.from_offset(plan.flushed_from):
            # What the active segment has taken since is not on the disk yet.
            if segment is not active or log.log_end_offset == plan.until_offset:
                segment.synced()
    log.last_flush_ms = monotonic_ms
