"""Checks the entries of a transaction index against the batches that they name.

Format page: docs/format/transaction-index.md. The file has no checksum, and with a wrong entry
aborted records look committed. Recovery checks the entries at every start, and rebuilds a wrong
index from the log. The index of a compacted log cannot be rebuilt, since the batches of a
transaction may be gone, so a wrong entry there is only logged; the marker stays as long as its
entry. Kafka checks only size and order.
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
    """Raises `CorruptionError` for an entry that contradicts the log; up to three lookups each.

    Compaction may have removed batches before `gaps_before`: a missing batch there is no
    contradiction, and in a segment that begins there a wrong entry is only logged.

    If a batch of the log cannot be read, the check ends: recovery would truncate the log there.
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
            wrong = CorruptionError(index.path, number * ENTRY.size, reason)
            if not is_cleaned:
                raise wrong
            logger.error(
                "%s; the index or %s is damaged, and is still served", wrong, segment.log.path
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
            return f"producer {one.producer_id} has no batch at offset {one.first_offset}"
    return _stable_contradiction(one, segments, gaps_before)


def _stable_contradiction(
    one: AbortedTransaction, segments: Segments, gaps_before: int
) -> str | None:
    """Checks the last stable offset: after the marker, or the start of another transaction."""
    stable = one.last_stable_offset
    if stable == one.last_offset + 1 or 0 <= stable < segments.first.base_offset:
        return None
    other = _batch_at(segments, stable) if 0 <= stable < one.last_offset else None
    if 0 <= stable < min(gaps_before, one.last_offset) and _is_gap(other, stable):
        return None
    if other is None or not _begins(other, stable) or other.producer_id == one.producer_id:
        return f"no transaction begins at the last stable offset {stable}"
    return None


def _is_gap(found: Batch | None, offset: int) -> bool:
    """Whether an offset lies in a gap, given the batch that was found for it."""
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
    """The checked batch that holds an offset, or the next in its segment; `None` if neither is."""
    segment = segments.floor(offset)
    found = None if segment is None else segment.translate(offset)
    if segment is None or found is None:
        return None
    batch = scan.batch_of(segment.log, found.position)
    batch.check()
    return batch
