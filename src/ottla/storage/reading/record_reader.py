"""Decodes the records of a log that is only read, as a consumer of either isolation level."""

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol, TypeVar

from ottla.record.batch import Batch, InvalidBatchError
from ottla.record.record import Record, read_records
from ottla.storage.index.transaction_index import AbortedTransaction
from ottla.storage.reading.batch_reader import BatchReader, undecodable_batch
from ottla.storage.reading.log_facts import LogFacts
from ottla.storage.reading.offsets import OffsetsOnDisk
from ottla.storage.reading.transactions import TransactionsOnDisk
from ottla.storage.segment.aborted_ranges import AbortedRanges
from ottla.storage.segment.segment_reader import Region


class Decoded(Protocol):
    """An item that a batch is decoded to, such as a `Record`."""

    @property
    def offset(self) -> int: ...


D = TypeVar("D", bound=Decoded)


class RecordReader:
    """The records of one log, without control records."""

    def __init__(
        self,
        facts: LogFacts,
        offsets: OffsetsOnDisk,
        batches: BatchReader,
        transactions: TransactionsOnDisk,
    ) -> None:
        self._facts = facts
        self._offsets = offsets
        self._batches = batches
        self._transactions = transactions

    def read(
        self, from_offset: int, until_offset: int | None = None, *, read_committed: bool = False
    ) -> Iterator[Record]:
        """The records with offsets in [from_offset, until_offset).

        With `read_committed`, the range ends at the last stable offset, and records of aborted
        transactions are left out, as for a consumer with that isolation level.
        """
        return self.decoded(read_records, from_offset, until_offset, read_committed=read_committed)

    def decoded(
        self,
        decode: Callable[[Batch], Iterator[D]],
        from_offset: int,
        until_offset: int | None = None,
        *,
        read_committed: bool = False,
    ) -> Iterator[D]:
        """As `read`, but each batch is decoded by `decode`."""
        transactions = self._transactions
        end = transactions.last_stable_offset if read_committed else self._offsets.log_end_offset
        until = end if until_offset is None else min(until_offset, end)
        aborted = transactions.aborted(from_offset, until) if read_committed else []
        regions = self._batches.regions(from_offset, until)
        return self._decoded(decode, regions, (from_offset, until), aborted)

    def _decoded(
        self,
        decode: Callable[[Batch], Iterator[D]],
        regions: Iterable[Region],
        offsets: tuple[int, int],
        aborted: list[AbortedTransaction],
    ) -> Iterator[D]:
        ranges, directory = AbortedRanges(aborted), self._facts.directory
        for region in regions:
            for position, batch in self._batches.checked(region):
                if batch.is_control or ranges.covers(batch):
                    continue
                try:
                    for record in decode(batch):
                        if offsets[0] <= record.offset < offsets[1]:
                            yield record
                except InvalidBatchError as error:
                    damage = undecodable_batch(region.path, position, batch, str(error))
                    if not directory.steps_over_damage:
                        raise damage.error() from error
                    directory.report(damage)
