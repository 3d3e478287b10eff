"""Whether a transaction index says what its log says, batch by batch that it names.

Format page: docs/format/transaction-index.md. The file has no checksum, and an entry that lies lets
aborted records pass for committed ones. `recovery` asks at every start and rebuilds a lying index
from the log. Of a compacted log it cannot be rebuilt, since the batches of a transaction may be
gone; its marker stays as long as the entry does. So there a lie is only named. Kafka believes what
has the right size and order.
"""

import logging

from ottla.base.errors import CorruptionError
from ottla.record.batch import Batch, InvalidBatchError
from ottla.record.control import parse_end_transaction_marker
from ottla.storage import scan
from ottla.storage.index.transaction_index import ENTRY, AbortedTransaction
from ottla.storage.segment.segment import Segment
from ottla.storage.segment.segments import Segments

logger = logging.getLogger(__name__)


def check_transactions(segment: Segment, segments: Segments, *, gaps_before: int) -> None:
    """Raises `CorruptionError` for an entry that the log contradicts; three lookups for each.

    Before `gaps_before` compaction may have taken batches: what lies in a gap there contradicts
    nothing. In a segment of which that holds, an entry that lies is only named.

    A log that is damaged itself contradicts nothing: to recover from it would cut it.
    """
    index = segment.transaction_index
    is_cleaned = segment.base_offset < gaps_before
    for number, one in enumerate(index.entries):
        try:
            reason = _contradiction(one, segments, gaps_before)
        except (CorruptionError, InvalidBatchError) as error:
            logger.warning("%s cannot be checked: %s", index.path, error)
            return
        if reason is not None:
            lie = CorruptionError(index.path, number * ENTRY.size, reason)
            if not is_cleaned:
                raise lie
            logger.error(
                "%s; this or %s has changed on the disk, and is served", lie, segment.log.path
            )


def _contradiction(one: AbortedTransaction, segments: Segments, gaps_before: int) -> str | None:
    marker = _batch_at(segments, one.last_offset)
    if marker is None or not _is_abort(marker, one):
        return f"producer {one.producer_id} has no abort marker at offset {one.last_offset}"
    if one.first_offset >= segments.first.base_offset:
        first = _batch_at(segments, one.first_offset)
        is_gone = one.first_offset < gaps_before and _is_gap(first, one.first_offset)
        if not is_gone and (
            first is None
            or not _begins(first, one.first_offset)
            or (first.producer_id != one.producer_id)
        ):
            return f"producer {one.producer_id} began nothing at offset {one.first_offset}"
    return _stable_contradiction(one, segments, gaps_before)


def _stable_contradiction(
    one: AbortedTransaction, segments: Segments, gaps_before: int
) -> str | None:
    """The last stable offset is past the marker, or where another transaction began."""
    stable = one.last_stable_offset
    if stable == one.last_offset + 1 or 0 <= stable < segments.first.base_offset:
        return None
    other = _batch_at(segments, stable) if 0 <= stable < one.last_offset else None
    if 0 <= stable < min(gaps_before, one.last_offset) and _is_gap(other, stable):
        return None
    if other is None or not _begins(other, stable) or other.producer_id == one.producer_id:
        return f"no transaction held the last stable offset at {stable}"
    return None


def _is_gap(found: Batch | None, offset: int) -> bool:
    """Whether what was found for an offset is the batch after a gap, or nothing."""
    return found is None or found.base_offset > offset


def _begins(batch: Batch, offset: int) -> bool:
    return batch.is_transactional and not batch.is_control and batch.base_offset == offset


def _is_abort(batch: Batch, one: AbortedTransaction) -> bool:
    if not batch.is_control or batch.producer_id != one.producer_id:
        return False
    if batch.last_offset != one.last_offset:
        return False
    marker = parse_end_transaction_marker(batch)
    return marker is not None and not marker.is_commit


def _batch_at(segments: Segments, offset: int) -> Batch | None:
    """The whole batch that holds an offset; compaction may have left none."""
    segment = segments.floor(offset)
    found = None if segment is None else segment.translate(offset)
    if segment is None or found is None:
        return None
    batch = scan.batch_of(segment.log, found.position)
    batch.check()
    return batch
