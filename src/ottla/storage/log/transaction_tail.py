"""Finds the open and aborted transactions near a log's end, from its batches.

If a directory is in use, or its broker has crashed, its transaction indexes are only complete up to
the recovery point. So readers replay the batches from the newest producer snapshot up to that
point. Kafka's counterpart: the transactions in `UnifiedLog.rebuildProducerState`.
"""

from collections.abc import Iterable
from dataclasses import replace

from ottla.base.values import dataclass
from ottla.record.batch import Batch
from ottla.record.control import parse_end_transaction_marker
from ottla.storage.index.producer_snapshot import JudgedSnapshot
from ottla.storage.index.transaction_index import AbortedTransaction


@dataclass(slots=True, kw_only=True)
class OpenTransaction:
    """A transaction without a marker; `last_timestamp_ms` is the timestamp of its last batch."""

    producer_id: int
    producer_epoch: int
    first_offset: int
    last_timestamp_ms: int


class TransactionTail:
    """The transactions as of `next_offset`, which `take` advances."""

    def __init__(self, next_offset: int, open_ones: Iterable[OpenTransaction] = ()) -> None:
        self.next_offset = next_offset
        self.aborted: list[AbortedTransaction] = []
        self._open = {one.producer_id: one for one in open_ones}

    @classmethod
    def from_snapshot(
        cls, newest: JudgedSnapshot | None, log_start_offset: int
    ) -> "TransactionTail":
        """Begins with a producer snapshot, or at the log start without one."""
        if newest is None:
            return cls(log_start_offset)
        return cls(
            newest.offset,
            [
                OpenTransaction(
                    producer_id=entry.producer_id,
                    producer_epoch=entry.epoch,
                    first_offset=entry.transaction_first_offset,
                    last_timestamp_ms=entry.timestamp_ms,
                )
                for entry in newest.entries
                if entry.transaction_first_offset is not None
            ],
        )

    def copy(self) -> "TransactionTail":
        """An independent copy."""
        tail = TransactionTail(self.next_offset, map(replace, self._open.values()))
        tail.aborted = list(self.aborted)
        return tail

    @property
    def open_transactions(self) -> list[OpenTransaction]:
        """The open transactions, oldest first."""
        return sorted(self._open.values(), key=lambda one: one.first_offset)

    @property
    def first_open_offset(self) -> int | None:
        """The first offset of the oldest open transaction; `None` without one."""
        return min((one.first_offset for one in self._open.values()), default=None)

    def take(self, batch: Batch) -> None:
        """Adds the next batch of the log; a data batch may lack its payload."""
        self.next_offset = batch.last_offset + 1
        if not batch.is_transactional:
            return
        if not batch.is_control:
            self._take_data(batch)
            return
        marker = parse_end_transaction_marker(batch)
        ended = self._open.pop(batch.producer_id, None)
        if marker is None or marker.is_commit or ended is None:
            return
        oldest = self.first_open_offset
        self.aborted.append(
            AbortedTransaction(
                producer_id=batch.producer_id,
                first_offset=ended.first_offset,
                last_offset=batch.last_offset,
                last_stable_offset=batch.last_offset + 1 if oldest is None else oldest,
            )
        )

    def take_held(self, batch: Batch) -> None:
        """As `take`, but a batch of which compaction has left no record is of no transaction."""
        if batch.is_control or batch.record_count:
            self.take(batch)
        else:
            self.next_offset = batch.last_offset + 1

    def _take_data(self, batch: Batch) -> None:
        one = self._open.get(batch.producer_id)
        if one is None:
            self._open[batch.producer_id] = OpenTransaction(
                producer_id=batch.producer_id,
                producer_epoch=batch.producer_epoch,
                first_offset=batch.base_offset,
                last_timestamp_ms=batch.max_timestamp_ms,
            )
        else:
            one.producer_epoch = batch.producer_epoch
            one.last_timestamp_ms = batch.max_timestamp_ms


def overlapping(
    aborted: Iterable[AbortedTransaction], from_offset: int, until_offset: int
) -> list[AbortedTransaction]:
    """The transactions that overlap with a range, without duplicates, ordered by their end."""
    found = {
        (one.last_offset, one.producer_id): one
        for one in aborted
        if one.last_offset >= from_offset and one.first_offset < until_offset
    }
    return [found[key] for key in sorted(found)]
