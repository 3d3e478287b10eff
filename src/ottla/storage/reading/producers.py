"""The producers of a log that is only read: its newest snapshot, then the batches after it.

Format page: docs/format/producer-snapshot.md. Kafka's counterpart:
`UnifiedLog.rebuildProducerState`.
"""

from ottla.storage.log.producer_state import ProducerEntry, ProducerState, take_batch
from ottla.storage.log.snapshot_files import producer_entry
from ottla.storage.reading.read_only_log import ReadOnlyLog


def producers_of(log: ReadOnlyLog) -> list[ProducerEntry]:
    """The log's producers with their state at its end; raises as the reads of `ReadOnlyLog` do."""
    state = ProducerState()
    state.clear(log.log_start_offset)
    newest = log.transactions.newest_snapshot()
    if newest is not None:
        state.load(map(producer_entry, newest.entries), newest.offset)
    for batch in log.batches.headers(state.map_end_offset, log.log_end_offset):
        if batch.producer_id >= 0:
            completed = take_batch(state, batch)
            if completed is not None:
                state.complete(completed)
    return list(state.entries.values())
