"""The open and aborted transactions of a log that is only read.

Aborts come from the transaction indexes up to the recovery point, and after it from the batches
(`transaction_tail`). An index that lacks entries is completed by the abort markers in the log
(`aborted_reading`).
"""

import logging
from collections.abc import Sequence

from ottla.base.errors import ApiError, CorruptionError
from ottla.base.ids import Uuid
from ottla.storage.files.integrity import Integrity
from ottla.storage.index.producer_snapshot import JudgedSnapshot, newest_snapshot
from ottla.storage.index.transaction_index import AbortedTransaction
from ottla.storage.log.leader_epochs import EpochEntry
from ottla.storage.log.transaction_tail import OpenTransaction, TransactionTail, overlapping
from ottla.storage.reading.aborted_reading import (
    ChangedIndexError,
    aborts_without_entry,
    indexed_transactions,
    report_missing_aborts,
)
from ottla.storage.reading.batch_reader import BatchReader
from ottla.storage.reading.log_facts import LogFacts
from ottla.storage.reading.offsets import OffsetsOnDisk

logger = logging.getLogger(__name__)

Identity = tuple[Uuid | None, Sequence[EpochEntry]]
"""A topic's id and the leader epochs of a log."""


class TransactionsOnDisk:
    """The transactions of one log; raises as the reads of `BatchReader` do."""

    def __init__(self, facts: LogFacts, offsets: OffsetsOnDisk, batches: BatchReader) -> None:
        self._facts = facts
        self._offsets = offsets
        self._batches = batches
        self._begin: TransactionTail | None = None
        self._tail: TransactionTail | None = None
        self._identity: Identity | None = None

    @property
    def last_stable_offset(self) -> int:
        """The first offset of the oldest open transaction, or the log end offset."""
        first_open = self._at_end().first_open_offset
        return self._offsets.log_end_offset if first_open is None else first_open

    @property
    def open(self) -> list[OpenTransaction]:
        """The transactions without a marker, oldest first."""
        return self._at_end().open_transactions

    def continue_from(self, before: "TransactionsOnDisk") -> None:
        """Takes over the state of an earlier snapshot of the same log.

        Nothing is taken over if the log has changed other than at its end, as a follower's log does
        when it is truncated for a new leader epoch. Nor if the recovery point has passed the
        earlier state: a newer producer snapshot may then be smaller.
        """
        tail, offsets = before._tail, self._offsets
        if (
            tail is not None
            and before._identity is not None
            and before._identity == self._identity_now()
            and offsets.log_start_offset == before._offsets.log_start_offset
            and offsets.recovery_point < tail.next_offset <= offsets.log_end_offset
        ):
            self._begin = tail.copy()

    def _identity_now(self) -> Identity | None:
        """The values that change if offsets are reassigned; `None` if the epochs are damaged."""
        try:
            return self._facts.topic_id, self._facts.leader_epochs.entries
        except CorruptionError:
            return None

    def _at_end(self) -> TransactionTail:
        """The transactions from the newest producer snapshot to the log's end."""
        while self._tail is None:
            start = self._offsets.log_start_offset
            try:
                self._tail = self._replayed()
            except ApiError:
                # Retention deleted batches during the walk: start again at the new log start.
                self._facts.listed.list_again()
                self._begin = None
                if not start < self._offsets.look_for_start() <= self._offsets.log_end_offset:
                    raise
        return self._tail

    def _replayed(self) -> TransactionTail:
        self._identity = self._identity_now()  # before anything is read
        tail = self._begin or TransactionTail.from_snapshot(
            self.newest_snapshot(), self._offsets.log_start_offset
        )
        for batch in self._batches.headers_from(tail.next_offset):
            tail.take(batch)
        return tail

    def newest_snapshot(self) -> JudgedSnapshot | None:
        """The newest sound producer snapshot up to the recovery point."""
        facts, offsets = self._facts, self._offsets
        return newest_snapshot(
            facts.file_system,
            facts.listed.files.snapshots,
            facts.integrity.snapshots if facts.integrity else {},
            range(offsets.log_start_offset, offsets.recovery_point + 1),
        )

    def aborted(self, from_offset: int, until_offset: int) -> list[AbortedTransaction]:
        """The aborted transactions that overlap with a range, in the order in which they ended.

        The list is complete up to the last stable offset: open transactions have no outcome yet.
        """
        facts = self._facts
        integrity = facts.integrity
        try:
            found = self._indexed(integrity, from_offset, until_offset)
        except ChangedIndexError as error:
            # Compaction may have replaced the index and its recorded checksum.
            facts.forget_integrity()
            integrity = facts.integrity
            try:
                found = self._indexed(integrity, from_offset, until_offset)
            except ChangedIndexError:
                logger.warning("%s; using the abort markers in the log", error)
                return self._aborted_by_markers(from_offset, until_offset)
        offsets = from_offset, until_offset
        missing: list[AbortedTransaction] = []
        if integrity is None or not integrity.aborts_are_indexed:
            headers = self._batches.headers_from(from_offset)
            missing = aborts_without_entry(headers, found, offsets)
            report_missing_aborts(
                missing, facts.segments, is_tolerated=facts.directory.steps_over_damage
            )
        return overlapping([*missing, *found], *offsets)

    def _indexed(
        self, integrity: Integrity | None, from_offset: int, until_offset: int
    ) -> list[AbortedTransaction]:
        facts = self._facts
        found = list(self._at_end().aborted)
        offsets = from_offset, until_offset
        before: list[str] | None = None
        while self._has_index(integrity) and before != (listed := facts.segments.names):
            # An index deleted with its segment during this loop was read as empty: read again.
            before = listed
            segments = facts.listed.from_offset(from_offset)
            found += indexed_transactions(facts.file_system, segments, integrity, offsets)
            facts.listed.list_again()
        return found

    def _has_index(self, integrity: Integrity | None) -> bool:
        """Whether a transaction index exists, or is recorded in the integrity file."""
        return self._facts.listed.files.has_transaction_index or bool(
            integrity and integrity.has_aborts
        )

    def _aborted_by_markers(self, from_offset: int, until_offset: int) -> list[AbortedTransaction]:
        """The aborted transactions of a range by the markers in the log."""
        # From the log's start, since an aborted transaction may have begun before the range.
        start, known = self._offsets.log_start_offset, self._at_end().aborted
        headers = self._batches.headers_from(start)
        found = aborts_without_entry(headers, known, (start, until_offset))
        return overlapping([*found, *known], from_offset, until_offset)
