"""Logs which segments are missing when a log is loaded.

Loading continues: the remaining segments are served, and a fetch at a missing offset returns the
records after it, as in Kafka, which logs nothing. Readers of files raise at the same gaps
(`reading/lost_offsets.py`).
"""

import logging
from itertools import pairwise

from ottla.base.errors import CorruptionError
from ottla.storage.files.losses import KnownLosses, missing_front
from ottla.storage.segment.segment import Segment
from ottla.storage.segment.segments import Segments

logger = logging.getLogger(__name__)


def name_missing_front(
    begun: tuple[int, str] | None, segments: Segments, recorded_start: int
) -> None:
    """Logs the offsets that are missing before the first segment; see `missing_front`."""
    first = segments.first
    found = missing_front(begun, first.log.path, first.base_offset, recorded_start)
    if found is not None:
        text = found.as_loss().text
        logger.error("%s, and the local segments begin at offset %d", text, first.base_offset)


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
        finally:
            before.let_go_at_once()  # Of ten thousand a process cannot have all files open.
        gap = max(end, recorded_start), segment.base_offset
        found = losses.before(segment.log.path, 0, gap)
        if found is not None:
            begun.append(end)
            text = found.as_loss().text
            logger.error("%s; fetches of these offsets return the records after them", text)
    return begun


def name_missing_end(last: Segment, end_offset: int, recovery_point: int) -> None:
    """Logs the flushed offsets that are missing at the end after a crash; they will be reused."""
    logger.error(
        "%s ends at offset %d, but the log was flushed up to offset %d; offsets %d to %d are lost, "
        "and will be assigned again",
        last.log.path, end_offset, recovery_point, end_offset, recovery_point - 1,
    )  # fmt: skip
