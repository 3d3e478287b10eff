"""What a log must say of itself, worked out from its batches alone and without its code."""

from collections.abc import Sequence
from dataclasses import dataclass

from ottla.record.batch import RecordBatch
from ottla.record.control import parse_end_transaction_marker
from ottla.record.record import Record, read_records
from ottla.storage.index.transaction_index import AbortedTransaction
from ottla.storage.log.leader_epochs import EpochEntry


@dataclass(frozen=True, slots=True)
class Producer:
    epoch: int
    last_sequence: int
    last_offset: int
    transaction_first_offset: int | None


class Expected:
    """Replays batches that lie one after the other."""

    def __init__(self, batches: Sequence[bytes]) -> None:
        self.batches = [RecordBatch(one) for one in batches]
        self.producers: dict[int, Producer] = {}
        self.aborted: list[AbortedTransaction] = []
        for batch in self.batches:
            if batch.producer_id >= 0:
                self._take(batch)

    def _take(self, batch: RecordBatch) -> None:
        before = self.producers.get(batch.producer_id, Producer(-1, -1, -1, None))
        first = before.transaction_first_offset
        if not batch.is_control:
            if batch.is_transactional and first is None:
                first = batch.base_offset
            after = Producer(batch.producer_epoch, batch.last_sequence, batch.last_offset, first)
        else:
            marker = parse_end_transaction_marker(batch)
            assert marker is not None
            after = Producer(batch.producer_epoch, before.last_sequence, before.last_offset, None)
            if not marker.is_commit and first is not None:
                self._abort(batch, first)
        self.producers[batch.producer_id] = after

    def _abort(self, marker: RecordBatch, first_offset: int) -> None:
        del self.producers[marker.producer_id]
        unstable = self.first_unstable_offset
        self.aborted.append(
            AbortedTransaction(
                producer_id=marker.producer_id,
                first_offset=first_offset,
                last_offset=marker.last_offset,
                last_stable_offset=marker.last_offset + 1 if unstable is None else unstable,
            )
        )

    @property
    def first_unstable_offset(self) -> int | None:
        open_ones = [one.transaction_first_offset for one in self.producers.values()]
        return min((one for one in open_ones if one is not None), default=None)

    def epochs(self, start: int, end: int) -> tuple[EpochEntry, ...]:
        """The entries that are left of a log's history between two offsets."""
        entries: list[EpochEntry] = []
        for batch in self.batches:
            epoch = batch.partition_leader_epoch
            if batch.base_offset < end and (not entries or entries[-1].epoch != epoch):
                entries.append(EpochEntry(epoch, batch.base_offset))
        while len(entries) > 1 and entries[1].start_offset <= start:
            del entries[0]
        if entries and entries[0].start_offset < start:
            entries[0] = EpochEntry(entries[0].epoch, start)
        return tuple(entry for entry in entries if entry.start_offset < end)

    def records(self, start: int) -> list[Record]:
        """Every record at or after an offset, those of markers too."""
        return [
            record
            for batch in self.batches
            for record in read_records(batch)
            if record.offset >= start
        ]
