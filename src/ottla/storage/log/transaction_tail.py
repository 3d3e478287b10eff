"""What became of the transactions near a log's end, from the batches themselves.

A directory that a broker is using, or was using when it died, may lack the last entries of its
transaction indexes; only what lies before the recovery point is sure. So a reader of one replays
the batches from the newest snapshot at or before that point. Kafka's counterpart:
`UnifiedLog.rebuildProducerState`, as far as it concerns transactions.
"""

from collections.abc import Iterable
from dataclasses import replace

from ottla.base.values import dataclass
from ottla.record.batch import Batch
from ottla.record.control import parse_end_transaction_marker
from ottla.storage.index.producer_snapshot import ProducerSnapshotEntry
from ottla.storage.index.transaction_index import AbortedTransaction


@dataclass(slots=True, kw_only=True)
class OpenTransaction:
    """One whose marker is not in the log yet; `last_timestamp_ms` is its last batch's."""

    producer_id: int
    producer_epoch: int
    first_offset: int
    last_timestamp_ms: int


class TransactionTail:
    """Transactions as they stand before `next_offset`; `take` moves it on."""

    def __init__(self, next_offset: int, open_ones: Iterable[OpenTransaction] = ()) -> None:
        self.next_offset = next_offset
        self.aborted: list[AbortedTransaction] = []
        self._open = {one.producer_id: one for one in open_ones}

    @classmethod
    def from_snapshot(
        cls,
        newest: tuple[int, list[ProducerSnapshotEntry]] | None,
        log_start_offset: int,
    ) -> "TransactionTail":
        """Begins with a snapshot and its offset, or at the log's start."""
        if newest is None:
            return cls(log_start_offset)
        offset, entries = newest
        return cls(
            offset,
            [
                OpenTransaction(
                    producer_id=entry.producer_id,
                    producer_epoch=entry.epoch,
                    first_offset=entry.transaction_first_offset,
                    last_timestamp_ms=entry.timestamp_ms,
                )
                for entry in entries
                if entry.transaction_first_offset is not None
            ],
        )

    def copy(self) -> "TransactionTail":
        """The same, to be moved on without this one."""
        tail = TransactionTail(self.next_offset, map(replace, self._open.values()))
        tail.aborted = list(self.aborted)
        return tail

    @property
    def open_transactions(self) -> list[OpenTransaction]:
        """The oldest first."""
        return sorted(self._open.values(), key=lambda one: one.first_offset)

    @property
    def first_open_offset(self) -> int | None:
        """Where the oldest open transaction begins."""
        return min((one.first_offset for one in self._open.values()), default=None)

    def take(self, batch: Batch) -> None:
        """Takes the next batch of the log; of a data batch the header is enough."""
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
    """Those that overlap with a range, each once, in the order in which they ended."""
    found = {
        (one.last_offset, one.producer_id): one
        for one in aborted
        if one.last_offset >= from_offset and one.first_offset < until_offset
    }
    return [found[key] for key in sorted(found)]
