"""Damage among flushed batches. No crash tears flushed batches, so recovery truncates nothing.

The log stays readable before and after the damage. A damaged header is found by `header_check`,
which refuses the read; a damaged payload is found by the consumer that checks the CRC. Kafka
truncates the log at the damage when it rebuilds an index, and drops the segments after it.
"""

import contextlib
import logging
from collections.abc import Callable, Iterator, Sequence

from ottla.base.errors import CorruptionError
from ottla.record.batch import Batch
from ottla.storage.damage_scan import (
    MAX_OFFSETS,
    DamagedRegion,
    ScannedBatch,
    is_torn_append,
    scan_segment,
)
from ottla.storage.findings import Finding
from ottla.storage.scan import first_offset_in_header
from ottla.storage.segment.segment import Segment
from ottla.storage.segment.segment_view import TimestampOffset

logger = logging.getLogger(__name__)


def is_torn(segment: Segment, valid: int) -> bool:
    """Whether a killed process may have left the bytes after the first `valid` ones."""
    return is_torn_append(segment.log.reader(), segment.base_offset, valid, is_complete=True)


def keep_flushed(segment: Segment, damage: Finding, on_batch: Callable[[Batch], None]) -> None:
    """Passes the sound batches after the damage to `on_batch`; truncates nothing.

    The indexes are rebuilt over the whole segment if its headers are in order; otherwise they end
    before the damage.
    """
    logger.error(
        "%s; the batch was flushed: it is kept, and not served; `ottla log repair` removes it",
        damage.text,
    )
    for one in _sound_batches(segment):
        if one.position > (damage.position or 0):
            batch = one.batch
            on_batch(batch)
            segment.take_largest(TimestampOffset(batch.max_timestamp_ms, batch.last_offset))
    # Searches by time and retention use the last time entry, which may lie before the damage.
    segment.keep_largest()
    with contextlib.suppress(CorruptionError):
        segment.rebuild_indexes()


def end_after_damage(segment: Segment, recovery_point: int, *, trusts_headers: bool = False) -> int:
    """The offset at which a log with a damaged last segment continues.

    It is after all sound batches of the segment and after the recovery point; with
    `trusts_headers` also after the last batch, if its header makes sense.
    """
    end = segment.base_offset + 1
    if recovery_point - segment.base_offset <= MAX_OFFSETS:
        end = max(end, recovery_point)
    if end == recovery_point:
        return end
    due = segment.base_offset
    for one in _scanned(segment):
        if isinstance(one, ScannedBatch):
            end = max(end, due := one.batch.last_offset + 1)
        elif trusts_headers:
            end = max(end, due := one.stated_end(due))
    return end


def name_dropped(segments: Sequence[Segment], valid: int) -> None:
    """Logs how many sound records after damage a power failure costs.

    They lie after the first `valid` bytes of the first segment, and in the others. They were
    written after records that are lost, so a log with them would be no beginning of what was
    written: a transaction could lack a part, and a producer's sequence have a gap.
    """
    if not segments:
        return
    dropped = [
        one.batch
        for number, segment in enumerate(segments)
        for one in _sound_batches(segment)
        if number or one.position > valid
    ]
    if dropped:
        offsets = [(first_offset_in_header(one), one.last_offset) for one in dropped]
        logger.warning(
            "%s: up to %d sound records after the damage, at offsets %d to %d, are dropped with it",
            segments[0].log.path, sum(last - first + 1 for first, last in offsets),
            offsets[0][0], offsets[-1][1],
        )  # fmt: skip


def _sound_batches(segment: Segment) -> Iterator[ScannedBatch]:
    return (one for one in _scanned(segment) if isinstance(one, ScannedBatch))


def _scanned(segment: Segment) -> Iterator[ScannedBatch | DamagedRegion]:
    base = segment.base_offset
    return scan_segment(segment.log.reader(), base, base + MAX_OFFSETS)
