"""The state of a log's producers: sequence numbers, epochs, and open transactions.

Format page: docs/format/producer-snapshot.md. The state is kept in memory and in `.snapshot` files.
A crash can leave a snapshot missing, torn or newer than the log; `recovery` loads the newest valid
snapshot up to the log's end and replays the log from there. Kafka's counterparts:
`ProducerStateManager`, `ProducerStateEntry`, `ProducerAppendInfo` (KIP-98, KIP-360).
"""

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import field
from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.timestamps import Timestamps, silent_since_ms
from ottla.base.turns import parts_of
from ottla.base.values import dataclass
from ottla.config.setting import INT32_MAX
from ottla.record.batch import CONTROL_BIT, TRANSACTIONAL_BIT, Batch
from ottla.record.control import EndTransactionMarker, parse_end_transaction_marker

if TYPE_CHECKING:
    from ottla.storage.log.gradual_snapshot import GradualSnapshot

BATCHES_TO_RETAIN: Final = 5
"""A client has at most this many requests in flight, so a retry is always among the last five."""

EXPIRED_AT_ONCE: Final = 2048
"""The number of producers that are looked at in one step: 1 ms."""

NO_EPOCH: Final = -1
NO_SEQUENCE: Final = -1

BEFORE_START = -math.inf
"""In `quiet_since_ms`: no batch since the log was opened."""


class AppendOrigin(Enum):
    """The kind of writer, which decides the checks (Kafka: `AppendOrigin`)."""

    CLIENT = "client"
    COORDINATOR = "coordinator"
    REPLICATION = "replication"


CLIENT, REPLICATION = AppendOrigin.CLIENT, AppendOrigin.REPLICATION
"""Constants, as looking up a member of an enum takes as long as the checks of most batches."""


class BatchMetadata(NamedTuple):
    """One remembered batch of a producer."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp_ms: int

    @property
    def first_offset(self) -> int:
        return self.last_offset - self.offset_delta

    @property
    def first_sequence(self) -> int:
        return (self.last_sequence - self.offset_delta) & INT32_MAX


Remembered = tuple[int, int, int, int]
"""The fields of `BatchMetadata` as a plain tuple, for speed: each batch needs one."""


def _no_batches() -> deque[Remembered]:
    return deque(maxlen=BATCHES_TO_RETAIN)


@dataclass(slots=True, kw_only=True)
class ProducerEntry:
    """One producer's state. `transaction_first_offset` is `None` outside a transaction.

    `quiet_since_ms` is the monotonic time at which `is_silent` first found no new batch; `None`
    after a new batch. `is_partial` says that the entry comes from a snapshot, which has one batch,
    and that the log may have earlier ones that the client may retry. `last_marker_offset` is that
    of the last marker since the log was opened.
    """

    producer_id: int
    epoch: int = NO_EPOCH
    coordinator_epoch: int = -1
    last_timestamp_ms: int = -1
    transaction_first_offset: int | None = None
    batches: deque[Remembered] = field(default_factory=_no_batches)
    quiet_since_ms: float | None = field(default=None, compare=False)
    is_partial: bool = field(default=False, compare=False)
    last_marker_offset: int = field(default=-1, compare=False)

    @property
    def last_batch(self) -> BatchMetadata | None:
        return BatchMetadata(*self.batches[-1]) if self.batches else None

    @property
    def last_sequence(self) -> int:
        return self.batches[-1][0] if self.batches else NO_SEQUENCE

    def find(self, batch: Batch) -> BatchMetadata | None:
        """The remembered batch with the same epoch and sequence numbers."""
        if batch.producer_epoch != self.epoch:
            return None
        sequences = (batch.base_sequence, batch.last_sequence)
        all_known = (BatchMetadata(*one) for one in self.batches)
        same = (one for one in all_known if (one.first_sequence, one.last_sequence) == sequences)
        return next(same, None)

    def is_silent(self, at: Timestamps, limit_ms: int) -> bool:
        """Whether no batch came for `limit_ms`, counted from the first call after a batch."""
        if self.quiet_since_ms is None:
            self.quiet_since_ms = at.monotonic_ms
        elif self.quiet_since_ms == BEFORE_START:
            self.quiet_since_ms = silent_since_ms(at, self.last_timestamp_ms, limit_ms)
        return at.monotonic_ms - self.quiet_since_ms >= limit_ms

    def change_epoch(self, epoch: int) -> None:
        if epoch != self.epoch:
            self.epoch = epoch
            self.batches.clear()
            self.is_partial = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletedTransaction:
    """A transaction whose marker is in the log."""

    producer_id: int
    first_offset: int
    last_offset: int
    is_aborted: bool


Recall = Callable[[ProducerEntry], None]
"""Adds earlier batches to an entry from the log (`producer_recall`)."""


class ProducerState:
    """All producers of one log, as of `map_end_offset`, the offset of the next batch."""

    def __init__(self) -> None:
        self.entries: dict[int, ProducerEntry] = {}
        self.map_end_offset = 0
        self.snapshot: GradualSnapshot | None = None
        """A snapshot that is being made, which must not see what changes from then on."""
        # First offset -> producer id of open transactions; dict order is offset order, since a
        # transaction can only begin at the log's end.
        self._ongoing: dict[int, int] = {}
        # First offset -> marker offset of ended transactions above the high watermark.
        self._unreplicated: dict[int, int] = {}

    # Checks before an append

    def admit(
        self, batch: Batch, origin: AppendOrigin, recall: Recall | None = None
    ) -> BatchMetadata | None:
        """The remembered batch that this batch repeats, or `None` if it is not a client's retry.

        A retry is recognized by epoch and sequence numbers alone, as in Kafka, also after a marker
        that kept the epoch. Raises `ApiError` if a new batch is out of sequence, has an old epoch
        or does not fit the producer's transaction.
        """
        entry = self.entries.get(batch.producer_id)
        if entry is None:
            return None
        batches = entry.batches
        if (  # the common case of the next batch in sequence, without another call
            batches
            and batch.base_sequence == batches[-1][0] + 1
            and batch.producer_epoch == entry.epoch
            and origin is CLIENT
            and (entry.transaction_first_offset is None or batch.is_transactional)
        ):
            return None
        return self._admit_other(entry, batch, origin, recall)

    def _admit_other(
        self, entry: ProducerEntry, batch: Batch, origin: AppendOrigin, recall: Recall | None
    ) -> BatchMetadata | None:
        if origin is REPLICATION:
            return None
        if origin is CLIENT:
            known = entry.find(batch)
            if known is None and entry.is_partial and batch.producer_epoch == entry.epoch:
                known = _find_in_log(entry, batch, recall)
            if known is not None:
                return known
        if batch.producer_epoch < entry.epoch:
            raise ApiError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"Producer {batch.producer_id} sent epoch {batch.producer_epoch}, "
                f"but its latest epoch is {entry.epoch}.",
            )
        if batch.is_control:
            return None
        if origin is CLIENT:
            _check_sequence(entry, batch)
        if entry.transaction_first_offset is not None and not batch.is_transactional:
            raise ApiError(
                ErrorCode.INVALID_TXN_STATE,
                f"Producer {batch.producer_id} has an open transaction, but its batch is not "
                "transactional.",
            )
        return None

    def check_marker(self, producer_id: int, marker: EndTransactionMarker) -> None:
        """Raises `ApiError` for a marker from a coordinator that has been replaced."""
        entry = self.entries.get(producer_id)
        if entry is not None and entry.coordinator_epoch > marker.coordinator_epoch:
            raise ApiError(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"Coordinator epoch {marker.coordinator_epoch} is older than the latest, "
                f"{entry.coordinator_epoch}.",
            )

    # Updates after an append

    def take_data(self, batch: Batch) -> None:
        """Adds an appended data batch to its producer's state."""
        entry = self.entries.get(batch.producer_id) or self._entry(batch.producer_id)
        if self.snapshot is not None:
            self.snapshot.keep(entry)
        if batch.producer_epoch != entry.epoch:
            entry.change_epoch(batch.producer_epoch)
        delta, timestamp_ms = batch.last_offset_delta, batch.max_timestamp_ms
        last_sequence = batch.base_sequence + delta
        if not delta <= last_sequence <= INT32_MAX:
            last_sequence = batch.last_sequence  # without a sequence, or wrapped
        entry.batches.append((last_sequence, batch.base_offset + delta, delta, timestamp_ms))
        entry.last_timestamp_ms = timestamp_ms
        entry.quiet_since_ms = None
        if batch.attributes & TRANSACTIONAL_BIT and entry.transaction_first_offset is None:
            entry.transaction_first_offset = batch.base_offset
            self._ongoing[batch.base_offset] = batch.producer_id

    def take_marker(
        self, batch: Batch, marker: EndTransactionMarker, offset: int
    ) -> CompletedTransaction | None:
        """Adds a marker; returns the transaction that it ends, `None` if that was empty.

        The transaction stays open until `complete`, so that the caller can first record
        `last_stable_offset_after` in the transaction index.
        """
        entry = self._entry(batch.producer_id)
        if self.snapshot is not None:
            self.snapshot.keep(entry)
        entry.change_epoch(batch.producer_epoch)
        entry.coordinator_epoch = marker.coordinator_epoch
        entry.last_marker_offset = offset
        entry.last_timestamp_ms = batch.max_timestamp_ms
        entry.quiet_since_ms = None
        first_offset, entry.transaction_first_offset = entry.transaction_first_offset, None
        if first_offset is None:
            return None
        return CompletedTransaction(
            producer_id=batch.producer_id,
            first_offset=first_offset,
            last_offset=offset,
            is_aborted=not marker.is_commit,
        )

    def last_stable_offset_after(self, completed: CompletedTransaction) -> int:
        """The last stable offset once this transaction has ended."""
        for first_offset, producer_id in self._ongoing.items():
            if producer_id != completed.producer_id:
                return first_offset
        return completed.last_offset + 1

    def complete(self, completed: CompletedTransaction) -> None:
        """Ends the transaction; it stays unstable until the high watermark passes its marker."""
        assert self._ongoing.pop(completed.first_offset) == completed.producer_id
        self._unreplicated[completed.first_offset] = completed.last_offset

    def high_watermark_moved(self, high_watermark: int) -> None:
        if self._unreplicated:
            self._unreplicated = {
                first: last for first, last in self._unreplicated.items() if last >= high_watermark
            }

    @property
    def first_unstable_offset(self) -> int | None:
        """The first offset of any transaction without a marker below the high watermark."""
        ongoing = next(iter(self._ongoing), None)  # the first of all, however many there are
        if not self._unreplicated:
            return ongoing
        ended = min(self._unreplicated)
        return ended if ongoing is None else min(ongoing, ended)

    # Expiration and reset

    def opened(self) -> None:
        """Marks all producers as silent since before the log was opened."""
        for entry in self.entries.values():
            entry.quiet_since_ms = BEFORE_START

    def expire(self, at: Timestamps, expiration_ms: int) -> None:
        """Removes producers inactive for `expiration_ms`, unless they have an open transaction.

        Different from Kafka, which uses record timestamps: after a clock change, or for a client
        that loads old data, Kafka forgets producers that are still active.
        """
        for _ in self.expire_in_steps(lambda: at, expiration_ms):
            pass

    def expire_in_steps(self, now: Callable[[], Timestamps], expiration_ms: int) -> Iterator[None]:
        """Like `expire`, in short steps."""
        entries = self.entries
        for part in parts_of(list(entries.values()), EXPIRED_AT_ONCE):
            at = now()
            for entry in part:
                is_known = entries.get(entry.producer_id) is entry
                is_idle = is_known and entry.transaction_first_offset is None
                if is_idle and entry.is_silent(at, expiration_ms):
                    del entries[entry.producer_id]
            yield

    def log_start_moved(self, log_start_offset: int) -> None:
        """Drops ended transactions before the log start (Kafka: `onLogStartOffsetIncremented`)."""
        self._unreplicated = {
            first: last for first, last in self._unreplicated.items() if last >= log_start_offset
        }
        self.map_end_offset = max(self.map_end_offset, log_start_offset)

    def clear(self, map_end_offset: int) -> None:
        self.entries.clear()
        self._ongoing.clear()
        self._unreplicated.clear()
        self.map_end_offset = map_end_offset

    def load(self, entries: Iterable[ProducerEntry], map_end_offset: int) -> None:
        """Replaces the state by the entries of a snapshot at `map_end_offset`."""
        self.clear(map_end_offset)
        for entry in entries:
            self.entries[entry.producer_id] = entry
        self._ongoing = {
            entry.transaction_first_offset: entry.producer_id
            for entry in sorted(self.entries.values(), key=lambda one: _first_offset(one))
            if entry.transaction_first_offset is not None
        }

    def _entry(self, producer_id: int) -> ProducerEntry:
        entry = self.entries.get(producer_id)
        if entry is None:
            entry = self.entries[producer_id] = ProducerEntry(producer_id=producer_id)
        return entry


def take_batch(state: ProducerState, batch: Batch) -> CompletedTransaction | None:
    """Adds a stored batch of a producer to the state; returns the transaction that it ends."""
    if not batch.attributes & CONTROL_BIT:
        state.take_data(batch)
        return None
    # Compaction removes a marker, but not its batch, once all records of the transaction are gone.
    marker = parse_end_transaction_marker(batch)
    return None if marker is None else state.take_marker(batch, marker, batch.base_offset)


def _first_offset(entry: ProducerEntry) -> int:
    return -1 if entry.transaction_first_offset is None else entry.transaction_first_offset


def _find_in_log(entry: ProducerEntry, batch: Batch, recall: Recall | None) -> BatchMetadata | None:
    """Searches the log for batches before the one in the snapshot, once per entry."""
    entry.is_partial = False
    if recall is None or len(entry.batches) == BATCHES_TO_RETAIN:
        return None
    recall(entry)
    return entry.find(batch)


def _check_sequence(entry: ProducerEntry, batch: Batch) -> None:
    first = batch.base_sequence
    if batch.producer_epoch != entry.epoch:
        expected = 0 if entry.epoch != NO_EPOCH else first
    else:
        expected = (entry.last_sequence + 1) & INT32_MAX
    if first != expected:
        raise ApiError(
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            f"Producer {batch.producer_id} sent sequence number {first} instead of {expected}.",
        )
