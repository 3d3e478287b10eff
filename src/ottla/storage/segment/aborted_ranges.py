"""Decides which batches a `read_committed` reader skips.

Kafka's counterpart: the aborted-transaction queue of a consumer's `CompletedFetch`.
"""

from collections.abc import Iterable

from ottla.record.batch import Batch
from ottla.storage.index.transaction_index import AbortedTransaction


class AbortedRanges:
    """Aborted transactions by producer: each covers that producer's batches between two offsets."""

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self._ranges: dict[int, list[tuple[int, int]]] = {}
        for one in aborted:
            ranges = self._ranges.setdefault(one.producer_id, [])
            ranges.append((one.first_offset, one.last_offset))

    def covers(self, batch: Batch) -> bool:
        """Whether the batch belongs to an aborted transaction."""
        if not self._ranges or not batch.is_transactional:
            return False
        ranges = self._ranges.get(batch.producer_id, ())
        return any(first <= batch.base_offset <= last for first, last in ranges)
