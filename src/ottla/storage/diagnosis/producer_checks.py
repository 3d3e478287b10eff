"""Compares transaction indexes and the newest producer snapshot with the log.

Format pages: docs/format/transaction-index.md, docs/format/producer-snapshot.md. The log is
replayed through `ProducerState`, as in recovery, and the results are compared.

If compaction has removed batches, the replay knows less than the files: then only contradictions
are wrong, and missing or additional entries are not. After damage nothing is compared.
"""

from collections.abc import Iterator, Sequence
from enum import Enum
from itertools import islice

from ottla.base.files import FileSystem
from ottla.base.values import dataclass
from ottla.record.batch import NO_PRODUCER_ID, Batch
from ottla.storage.findings import Finding, FindingKind
from ottla.storage.index.abort_entries import WrongEntry, wrong_entries
from ottla.storage.index.producer_snapshot import JudgedSnapshot, ProducerSnapshotEntry
from ottla.storage.index.transaction_index import ENTRY, AbortedTransaction
from ottla.storage.log.producer_state import CompletedTransaction, ProducerState, take_batch
from ottla.storage.log.snapshot_files import producer_entry, snapshot_entry

PRODUCER_EXPIRATION_MS = 86_400_000
"""Kafka's default of `producer.id.expiration.ms`: producers silent for longer may be forgotten."""


class Knowledge(Enum):
    """Which of the batches that the files are based on are still in the log."""

    ALL = "every batch since the replay began"
    PART = "compaction has removed batches, or the log begins later"
    NONE = "there is damage"


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotToCheck:
    """The newest snapshot of a log, of the state at `offset`."""

    path: str
    offset: int
    entries: Sequence[ProducerSnapshotEntry]
    modified_ms: int


def snapshot_to_check(file_system: FileSystem, found: JudgedSnapshot) -> SnapshotToCheck:
    status = file_system.status(found.path)
    modified_ms = status.modified_ms if status else 0
    return SnapshotToCheck(
        path=found.path, offset=found.offset, entries=found.entries, modified_ms=modified_ms
    )


class ProducerReplay:
    """Replays a log's batches from its first segment, and compares the files with the result."""

    def __init__(
        self,
        base_offset: int,
        start: Sequence[ProducerSnapshotEntry] | None,
        newest: SnapshotToCheck | None,
    ) -> None:
        """`start` is the snapshot at the log's first offset; `None` if there is none."""
        self.state = ProducerState()
        self.state.load(map(producer_entry, start or ()), base_offset)
        self._newest = newest
        self._next_offset = base_offset
        self._aborted: list[AbortedTransaction] = []
        is_whole = start is not None or base_offset == 0
        self.knowledge = Knowledge.ALL if is_whole else Knowledge.PART

    def take(self, batch: Batch) -> Iterator[Finding]:
        """Replays the next batch; raises `InvalidBatchError` for an unreadable marker."""
        if self._newest is not None and batch.last_offset >= self._newest.offset:
            yield from self.check_snapshot()
        if self.knowledge is Knowledge.ALL and is_compacted(batch, self._next_offset):
            self.knowledge = Knowledge.PART
        self._next_offset = self.state.map_end_offset = batch.last_offset + 1
        if batch.producer_id != NO_PRODUCER_ID:
            completed = take_batch(self.state, batch)
            if completed is not None:
                self._complete(completed)

    def _complete(self, completed: CompletedTransaction) -> None:
        if completed.is_aborted:
            self._aborted.append(
                AbortedTransaction(
                    producer_id=completed.producer_id,
                    first_offset=completed.first_offset,
                    last_offset=completed.last_offset,
                    last_stable_offset=self.state.last_stable_offset_after(completed),
                )
            )
        self.state.complete(completed)

    def skip(self) -> None:
        self.knowledge = Knowledge.NONE

    # Transaction indexes

    def take_aborted(self) -> list[AbortedTransaction]:
        """The transactions that were aborted since the last call."""
        aborted, self._aborted = self._aborted, []
        return aborted

    def segment_ended(self, end_offset: int) -> None:
        """Records that the next segment begins at `end_offset`, perhaps after a gap."""
        if self.knowledge is Knowledge.ALL and self._next_offset != end_offset:
            self.knowledge = Knowledge.PART

    def check_transactions(
        self, path: str, found: Sequence[AbortedTransaction], *, end_offset: int, is_growing: bool
    ) -> Iterator[Finding]:
        """Compares a segment's index with the transactions aborted since the last call.

        `end_offset` is the segment's end.
        """
        expected = self.take_aborted()
        if self.knowledge is Knowledge.NONE:
            return
        if is_growing:
            found = [one for one in found if one.last_offset < self._next_offset]
        is_whole = self.knowledge is Knowledge.ALL
        wrong = wrong_entries(found, expected, is_whole=is_whole, end_offset=end_offset)
        for one in islice(wrong, 1):
            yield Finding(
                kind=FindingKind.TRANSACTION_INDEX,
                path=path,
                position=one.number * ENTRY.size,
                reason=_wrong_text(one),
            )

    # The snapshot

    def check_snapshot(self) -> Iterator[Finding]:
        """Compares the newest snapshot with the state, which has reached its offset."""
        newest, self._newest = self._newest, None
        if newest is None or self.knowledge is Knowledge.NONE:
            return
        reason = self._snapshot_contradiction(newest)
        if reason is not None:
            yield Finding(
                kind=FindingKind.PRODUCER_SNAPSHOT,
                path=newest.path,
                position=None,
                reason=f"{reason} (a replay of the log up to offset {newest.offset})",
            )

    def _snapshot_contradiction(self, newest: SnapshotToCheck) -> str | None:
        expected = {
            producer_id: snapshot_entry(entry) for producer_id, entry in self.state.entries.items()
        }
        for entry in newest.entries:
            other = expected.pop(entry.producer_id, None)
            reason = self._entry_contradiction(entry, other)
            if reason is not None:
                return f"producer {entry.producer_id}: {reason}"
        for missing in expected.values():
            is_open = missing.transaction_first_offset is not None
            age_ms = newest.modified_ms - missing.timestamp_ms
            if is_open or age_ms < PRODUCER_EXPIRATION_MS:
                return (
                    f"producer {missing.producer_id}, with last offset {missing.last_offset}, "
                    "is missing"
                )
        return None

    def _entry_contradiction(
        self, entry: ProducerSnapshotEntry, other: ProducerSnapshotEntry | None
    ) -> str | None:
        if other is None:
            return "the log has no batches of it" if self.knowledge is Knowledge.ALL else None
        if self.knowledge is Knowledge.PART:
            if other.last_offset > entry.last_offset:
                return f"last offset {entry.last_offset} instead of {other.last_offset}"
            return None
        for name in (
            "epoch", "last_offset", "last_sequence", "offset_delta", "transaction_first_offset",
        ):  # fmt: skip
            if getattr(entry, name) != getattr(other, name):
                field = name.replace("_", " ")
                return f"{field} {getattr(entry, name)} instead of {getattr(other, name)}"
        return None


def is_compacted(batch: Batch, next_offset: int) -> bool:
    """Whether offsets are missing before the batch or in it."""
    if batch.magic < 2:
        return False
    return (
        batch.base_offset != next_offset
        or batch.record_count != batch.last_offset - batch.base_offset + 1
    )


def _wrong_text(wrong: WrongEntry) -> str:
    if wrong.entry is None:
        return f"{_text(wrong.aborted)} is missing" if wrong.aborted else ""
    reason = f"{_text(wrong.entry)} contradicts the log"
    return f"{reason}: {_text(wrong.aborted)}" if wrong.aborted else reason


def _text(one: AbortedTransaction) -> str:
    return (
        f"the aborted transaction of producer {one.producer_id} from offset {one.first_offset} "
        f"to {one.last_offset}, last stable offset {one.last_stable_offset}"
    )
