"""Tracks which transactions were aborted, and whether their markers are still needed.

Batches are passed in the order of the log. Data of aborted transactions is removed; a marker is
kept until all data of its transaction is removed. Kafka's counterpart:
`CleanedTransactionMetadata`.
"""

import heapq
from collections.abc import Iterable

from ottla.base.values import dataclass
from ottla.record.batch import Batch
from ottla.record.control import ControlRecordType, control_type
from ottla.record.record import read_records
from ottla.storage.index.transaction_index import AbortedTransaction


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionsSeen:
    """The transactions in a range of batches, by producer id.

    Producers in `aborted` and `committed` have data in the range, and no marker after it. Producers
    in the other two sets have a marker in the range.
    """

    aborted: frozenset[int] = frozenset()
    committed: frozenset[int] = frozenset()
    ended_aborted: frozenset[int] = frozenset()
    ended_committed: frozenset[int] = frozenset()

    def then(self, later: "TransactionsSeen") -> "TransactionsSeen":
        """The transactions of this range and the range `later` that follows it."""
        return TransactionsSeen(
            aborted=(self.aborted - later.ended_aborted) | later.aborted,
            committed=(self.committed - later.ended_committed) | later.committed,
            ended_aborted=self.ended_aborted | later.ended_aborted,
            ended_committed=self.ended_committed | later.ended_committed,
        )


NOTHING_SEEN = TransactionsSeen()


class CleanedTransactions:
    """The state of transactions as the batches of a log are passed.

    `retained` collects the aborted transactions that had data in this pass, and so keep their
    markers. Transactions in `aborted` that ended before `from_offset` are ignored.
    """

    def __init__(
        self,
        aborted: Iterable[AbortedTransaction] = (),
        from_offset: int = 0,
        seen: TransactionsSeen = NOTHING_SEEN,
    ) -> None:
        self.retained: list[AbortedTransaction] = []
        matter = {
            (one.first_offset, one.producer_id): one
            for one in aborted
            if one.last_offset >= from_offset
        }
        self._waiting = [(*key, one) for key, one in sorted(matter.items())]
        self._aborted: dict[int, AbortedTransaction] = {}
        self._aborted_with_data = set(seen.aborted)
        self._committed_with_data = set(seen.committed)
        self._ended_aborted: set[int] = set()
        self._ended_committed: set[int] = set()

    @property
    def seen(self) -> TransactionsSeen:
        return TransactionsSeen(
            aborted=frozenset(self._aborted_with_data),
            committed=frozenset(self._committed_with_data),
            ended_aborted=frozenset(self._ended_aborted),
            ended_committed=frozenset(self._ended_committed),
        )

    def is_aborted(self, batch: Batch) -> bool:
        """Whether a data batch belongs to an aborted transaction."""
        self._begin_until(batch.last_offset)
        if not batch.is_transactional:
            return False
        if batch.producer_id in self._aborted:
            self._aborted_with_data.add(batch.producer_id)
            return True
        self._committed_with_data.add(batch.producer_id)
        return False

    def is_marker_obsolete(self, batch: Batch) -> bool:
        """Whether this pass has seen no data of the transaction that this control batch ends."""
        self._begin_until(batch.last_offset)
        record = next(iter(read_records(batch)), None)
        if record is None:
            return True
        producer_id = batch.producer_id
        match control_type(record.key):
            case ControlRecordType.ABORT:
                self._ended_aborted.add(producer_id)
                return self._end_aborted(producer_id)
            case ControlRecordType.COMMIT:
                self._ended_committed.add(producer_id)
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
