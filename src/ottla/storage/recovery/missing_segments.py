"""Reports the segments that a log has lost, when the log is loaded.

A start loses nothing by it: what is left is served, and a reader that continues where offsets are
missing is given the records after them, as in Kafka, which names none. Readers of files refuse to
continue there (`reading/lost_offsets.py`), by the same evidence.
"""

import logging
from itertools import pairwise

from ottla.base.errors import CorruptionError
from ottla.storage.files.filenames import LEADER_EPOCHS
from ottla.storage.files.integrity import KnownLosses
from ottla.storage.log.leader_epochs import LeaderEpochs
from ottla.storage.segment.segment import Segment
from ottla.storage.segment.segments import Segments

logger = logging.getLogger(__name__)


def name_missing_front(epochs: LeaderEpochs, segments: Segments, recorded_start: int) -> None:
    """Of a log that nobody but us has written, and whose integrity file says so too, or is lost.

    Retention leaves the one file or the other behind when the power fails.
    """
    begun = epochs.earliest_start_offset
    first = segments.first
    if begun is None or max(begun, recorded_start) >= first.base_offset:
        return
    start = max(begun, recorded_start)
    logger.error(
        "%s is the first of its log, which by %s had offset %d; offsets %d to %d are lost, and the "
        "log starts at offset %d",
        first.log.path, LEADER_EPOCHS, begun, start, first.base_offset - 1, first.base_offset,
    )  # fmt: skip


def name_missing_between(segments: Segments, losses: KnownLosses, recorded_start: int) -> list[int]:
    """One look at the end of each segment before which something may be lost, by its index.

    Returns where each gap begins of which something is lost.
    """
    begun = []
    for before, segment in pairwise(segments.values):
        gap = max(before.base_offset + 1, recorded_start), segment.base_offset
        if losses.within(*gap) is None:
            continue
        try:
            end = before.next_offset()
        except CorruptionError:
            continue  # damage, which the reader that meets it names
        lost = losses.within(max(end, recorded_start), segment.base_offset)
        if lost is not None:
            begun.append(end)
            logger.error(
                "%s begins at offset %d, and what comes before it ends at %d: offsets %d to %d are "
                "lost; a fetch of them is given what comes after",
                segment.log.path, segment.base_offset, end, lost[0], lost[1] - 1,
            )  # fmt: skip
    return begun


def name_missing_end(last: Segment, end_offset: int, recovery_point: int) -> None:
    """After a kill, of which a log keeps all that was flushed, unless it was being cut."""
    logger.error(
        "%s ends at offset %d, and the log was flushed up to offset %d; offsets %d to %d are lost, "
        "and are given away again",
        last.log.path, end_offset, recovery_point, end_offset, recovery_point - 1,
    )  # fmt: skip
