"""Damage among batches that were flushed: no crash tears those, so nothing after it is cut off.

The log stays readable up to the damage and after it; reads that meet it are refused
(`header_check`), or, where only a batch's content is wrong, by the reader that checks its CRC.
Kafka cuts a log there when it rebuilds an index, and drops the segments after it.
"""

import contextlib
import logging
from collections.abc import Callable, Iterator

from ottla.base.errors import CorruptionError
from ottla.record.batch import Batch
from ottla.storage.damage_scan import MAX_OFFSETS, ScannedBatch, scan_segment
from ottla.storage.segment.segment import Segment
from ottla.storage.segment.segment_view import TimestampOffset

logger = logging.getLogger(__name__)


def keep_flushed(segment: Segment, valid: int, on_batch: Callable[[Batch], None]) -> None:
    """Continues after the `valid` bytes of a segment that recovery has begun with.

    Cuts nothing. The indexes cover what follows the damage if its headers are in order.
    """
    logger.error(
        "%s at byte %d: a flushed batch is damaged; it is kept, and not served; "
        "`ottla log repair` takes it out",
        segment.log.path, valid,
    )  # fmt: skip
    for one in _sound_batches(segment):
        if one.position > valid:
            batch = one.batch
            on_batch(batch)
            segment.take_largest(TimestampOffset(batch.max_timestamp_ms, batch.last_offset))
    # Searches by time and retention go by it, also where the entries end before the damage.
    segment.keep_largest()
    with contextlib.suppress(CorruptionError):
        segment.rebuild_indexes()


def end_after_damage(segment: Segment, recovery_point: int) -> int:
    """Where a log continues whose last segment is damaged: after all it holds and ever flushed."""
    end = segment.base_offset + 1
    if recovery_point - segment.base_offset <= MAX_OFFSETS:
        end = max(end, recovery_point)
    if end == recovery_point:
        return end
    for one in _sound_batches(segment):
        end = max(end, one.batch.last_offset + 1)
    return end


def _sound_batches(segment: Segment) -> Iterator[ScannedBatch]:
    base = segment.base_offset
    for one in scan_segment(segment.log.reader(), base, base + MAX_OFFSETS):
        if isinstance(one, ScannedBatch):
            yield one
