"""Rebuilds producer state from the newest snapshot and the batches after it.

Kafka's counterpart: `UnifiedLog.rebuildProducerState` and `LogSegment.updateProducerState`.
"""

import logging

from ottla.record.batch import Batch, InvalidBatchError, batch_at
from ottla.storage.index.transaction_index import AbortedTransaction
from ottla.storage.log.producer_state import CompletedTransaction, ProducerState, take_batch
from ottla.storage.log.snapshot_files import SnapshotFiles
from ottla.storage.segment.segment import Segment
from ottla.storage.segment.segments import Segments

logger = logging.getLogger(__name__)


def replay_batch(state: ProducerState, batch: Batch, segment: Segment | None = None) -> None:
    """Adds a stored batch to the state, and an aborted transaction to the segment's index."""
    if batch.producer_id >= 0:
        completed = take_batch(state, batch)
        if completed is not None:
            complete_transaction(state, completed, segment)
    state.map_end_offset = batch.last_offset + 1


def complete_transaction(
    state: ProducerState, completed: CompletedTransaction, segment: Segment | None
) -> None:
    if segment is not None and completed.is_aborted:
        segment.transaction_index.append(
            AbortedTransaction(
                producer_id=completed.producer_id,
                first_offset=completed.first_offset,
                last_offset=completed.last_offset,
                last_stable_offset=state.last_stable_offset_after(completed),
            )
        )
    state.complete(completed)


def rebuild_producers(
    state: ProducerState,
    snapshots: SnapshotFiles,
    segments: Segments,
    *,
    log_start_offset: int,
    until_offset: int,
) -> None:
    """Makes `state` the state at `until_offset`; removes snapshots outside the log."""
    # Snapshots before the log start are deleted with their segments. They are not used here
    # either, so that a later recovery comes to the same state. Kafka also removes a snapshot at
    # the log start.
    snapshots.remove_outside(log_start_offset, until_offset)
    snapshots.load_newest(state, log_start_offset=log_start_offset)
    if state.map_end_offset < until_offset:
        for segment in segments.from_offset(state.map_end_offset):
            # Later segments may still be damaged: recovery handles segments in order.
            if segment.base_offset < until_offset:
                _replay_segment(state, segment, until_offset)
    state.map_end_offset = max(state.map_end_offset, until_offset)


def _replay_segment(state: ProducerState, segment: Segment, until_offset: int) -> None:
    view = segment.log.map()
    try:
        position = 0
        while position < len(view):
            batch = batch_at(view, position)
            if state.map_end_offset <= batch.last_offset < until_offset:
                replay_batch(state, batch)
            position += batch.size
    except InvalidBatchError as error:
        logger.error(
            "%s at byte %d: %s; the state of its producers after it is unknown",
            segment.log.path, position, error,
        )  # fmt: skip
    finally:
        view.release()
