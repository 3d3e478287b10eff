"""Which transactions were aborted, and whether their markers are still needed.

Fed with batches in the order of the log. Data of aborted transactions goes; a marker stays until
all data of its transaction has gone. Kafka's counterpart: `CleanedTransactionMetadata`.
"""

import heapq
from collections.abc import Iterable

from ottla.record.batch import Batch
from ottla.record.control import ControlRecordType, control_type
from ottla.record.record import read_records
from ottla.storage.transaction_index import AbortedTransaction


class CleanedTransactions:
    """`retained` are the aborted transactions of which data was seen, with their markers."""

    def __init__(self) -> None:
        self.retained: list[AbortedTransaction] = []
        self._waiting: list[tuple[int, int, AbortedTransaction]] = []
        self._seen: set[tuple[int, int]] = set()
        self._aborted: dict[int, AbortedTransaction] = {}
        self._aborted_with_data: set[int] = set()
        self._committed_with_data: set[int] = set()

    def add_aborted(self, transactions: Iterable[AbortedTransaction]) -> None:
        """Tells of aborted transactions; the same one may be told of again."""
        for one in transactions:
            key = (one.producer_id, one.first_offset)
            if key not in self._seen:
                self._seen.add(key)
                heapq.heappush(self._waiting, (one.first_offset, one.producer_id, one))

    def is_aborted(self, batch: Batch) -> bool:
        """Whether a data batch is of an aborted transaction."""
        self._begin_until(batch.last_offset)
        if not batch.is_transactional:
            return False
        if batch.producer_id in self._aborted:
            self._aborted_with_data.add(batch.producer_id)
            return True
        self._committed_with_data.add(batch.producer_id)
        return False

    def is_marker_obsolete(self, batch: Batch) -> bool:
        """Whether no data of the transaction was seen that this control batch ends."""
        self._begin_until(batch.last_offset)
        record = next(iter(read_records(batch)), None)
        if record is None:
            return True
        producer_id = batch.producer_id
        match control_type(record.key):
            case ControlRecordType.ABORT:
                return self._end_aborted(producer_id)
            case ControlRecordType.COMMIT:
                is_obsolete = producer_id not in self._committed_with_data
                self._committed_with_data.discard(producer_id)
                return is_obsolete
        return False

    def _end_aborted(self, producer_id: int) -> bool:
        transaction = self._aborted.pop(producer_id, None)
        if transaction is None or producer_id not in self._aborted_with_data:
            return True
        self._aborted_with_data.discard(producer_id)
        self.retained.append(transaction)
        return False

    def _begin_until(self, offset: int) -> None:
        while self._waiting and self._waiting[0][0] <= offset:
            transaction = heapq.heappop(self._waiting)[2]
            self._aborted.setdefault(transaction.producer_id, transaction)
