"""Every sound batch of an open log, and the damage between them.

For state that is kept in a log: what is sound is used, as by Kafka, and what is lost is reported.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ottla.base.errors import CorruptionError
from ottla.base.files import File
from ottla.record.batch import Batch
from ottla.storage.damage_scan import DamagedRegion, scan_segment
from ottla.storage.files.losses import KnownLosses
from ottla.storage.findings import Finding, FindingKind, unreadable
from ottla.storage.scan import first_offset_in_header

if TYPE_CHECKING:
    from ottla.storage.log.partition_log import PartitionLog


def sound_batches(log: "PartitionLog", losses: KnownLosses) -> Iterator[Batch | Finding]:
    """Yields the batches of a log to its end, checked, and damage where offsets cannot be read.

    `losses` are the offsets that are recorded as lost. Raises `StorageError`.
    """
    due = log.log_start_offset
    error: CorruptionError | None = None
    for one in _pieces(log):
        if isinstance(one, CorruptionError):
            error = error or one
            continue
        damage = _damage_before(first_offset_in_header(one), due, error, log, losses)
        if damage is not None:
            yield damage
        error = None
        yield one
        due = one.last_offset + 1
    damage = _damage_before(log.log_end_offset, due, error, log, losses)
    if damage is not None:
        yield damage


def _damage_before(
    offset: int, due: int, error: CorruptionError | None, log: "PartitionLog", losses: KnownLosses
) -> Finding | None:
    """The damage between the offset that was due and the next one that was found."""
    if error is not None:
        return damage_at(error.path, error.reason, (due, offset), error.position)
    lost = losses.within(due, offset)
    if lost is None:
        return None
    return unreadable(FindingKind.LOST_OFFSETS, log.directory, (0, 0), "they are missing", lost)


def damage_at(path: str, reason: str, lost: tuple[int, int], position: int = 0) -> Finding:
    """Offsets from `lost[0]` to before `lost[1]` that cannot be read."""
    return unreadable(
        FindingKind.LOG_DAMAGE,
        path,
        (position, position),
        reason,
        lost,
    )


def _pieces(log: "PartitionLog") -> Iterator[Batch | CorruptionError]:
    """Scans one segment after the other; they may grow or be replaced between two steps."""
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        segment = log.segments.floor(offset) or log.segments.first
        following = log.segments.after(segment)
        end = log.log_end_offset if following is None else following.base_offset
        with log.health.guarding():
            file = segment.log.reader().duplicate()
            try:
                yield from _pieces_of(file, segment.base_offset, offset, end)
            finally:
                file.close()
        offset = max(end, offset + 1)


def _pieces_of(
    file: File, base_offset: int, offset: int, end: int
) -> Iterator[Batch | CorruptionError]:
    for one in scan_segment(file, base_offset, end):
        if isinstance(one, DamagedRegion):
            if not (one.is_zero and one.is_tail):  # space that was allocated in advance
                yield CorruptionError(file.path, one.position, one.reason)
        elif one.batch.last_offset >= offset:
            yield one.batch
