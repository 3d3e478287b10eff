"""Logs which segments are missing when a log is loaded.

Loading continues: the remaining segments are served, and a fetch at a missing offset returns the
records after it, as in Kafka, which logs nothing. Readers of files raise at the same gaps
(`reading/lost_offsets.py`).
"""

import logging
from itertools import pairwise

from ottla.base.errors import CorruptionError
from ottla.storage.files.losses import KnownLosses
from ottla.storage.segment.segment import Segment
from ottla.storage.segment.segments import Segments

logger = logging.getLogger(__name__)


def name_missing_front(
    begun: tuple[int, str] | None, segments: Segments, recorded_start: int
) -> None:
    """Logs the offsets that are missing before the first segment.

    `begun` is where the log began and the file that says so, if it is known. Callers make sure that
    only Ottla has written the log.
    """
    first = segments.first
    if begun is None or max(begun[0], recorded_start) >= first.base_offset:
        return
    start = max(begun[0], recorded_start)
    logger.error(
        "%s is the log's first segment, but %s begins at offset %d; offsets %d to %d are lost, and "
        "the log starts at offset %d",
        first.log.path, begun[1], begun[0], start, first.base_offset - 1, first.base_offset,
    )  # fmt: skip


def name_missing_between(segments: Segments, losses: KnownLosses, recorded_start: int) -> list[int]:
    """Logs the offsets that are missing between segments; returns where these gaps begin.

    The end of a segment is only read, by its index, if offsets may be lost before the next one.
    """
    begun = []
    for before, segment in pairwise(segments.values):
        gap = max(before.base_offset + 1, recorded_start), segment.base_offset
        if losses.within(*gap) is None:
            continue
        try:
            end = before.next_offset()
        except CorruptionError:
            continue  # damage, which reads report
        lost = losses.within(max(end, recorded_start), segment.base_offset)
        if lost is not None:
            begun.append(end)
            logger.error(
                "%s begins at offset %d, but the segment before it ends at %d: offsets %d to %d "
                "are lost; fetches of these offsets return the records after them",
                segment.log.path, segment.base_offset, end, lost[0], lost[1] - 1,
            )  # fmt: skip
    return begun


def name_missing_end(last: Segment, end_offset: int, recovery_point: int) -> None:
    """Logs the flushed offsets that are missing at the end after a crash; they will be reused."""
    logger.error(
        "%s ends at offset %d, but the log was flushed up to offset %d; offsets %d to %d are lost, "
        "and will be assigned again",
        last.log.path, end_offset, recovery_point, end_offset, recovery_point - 1,
    )  # fmt: skip
