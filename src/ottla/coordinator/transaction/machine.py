"""The transaction coordinator: a state machine without clock, disk or network.

Operations take values and a time, and return a `Decision`. The caller appends its records to
`__transaction_state`, passes them to `replay`, and only then responds. Afterwards the caller writes
the markers of the transactions in `prepared`, and calls `complete` once all markers of a
transaction are written. At start the caller replays the log; `prepared` then contains the
transactions that a crash interrupted.

Different from Kafka: the abort that fences a producer is a single record, so PrepareEpochFence
never occurs; and an old producer that asks to recover (KIP-360) does not abort the transaction of
its successor. Kafka's counterparts: `TransactionCoordinator`, `TransactionStateManager`.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from typing import Final

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.partitions import TopicPartition, by_topic
from ottla.base.timers import Timers
from ottla.base.timestamps import Timestamps, silent_since_ms
from ottla.base.turns import PART_SIZE
from ottla.config.transaction import TransactionConfig
from ottla.coordinator.decision import Answer, AnswerT, CoordinatorRecord, Decision
from ottla.coordinator.events import TransactionTimedOut
from ottla.coordinator.transaction.ending import end_producer, fence
from ottla.coordinator.transaction.initializing import init_producer
from ottla.coordinator.transaction.records import TransactionLogKey, TransactionLogValue
from ottla.coordinator.transaction.requests import (
    InitRequest,
    MarkersToWrite,
    Outcome,
    ProducerAnswer,
    ProducerClaim,
    TransactionDescription,
)
from ottla.coordinator.transaction.state import TransactionState
from ottla.coordinator.transaction.transaction import NO_PRODUCER_ID, Change, Transaction

RETRY_MS: Final = 1000
"""The delay before an abort is retried if its record could not be appended."""


class Due(Enum):
    TIMEOUT = "a transaction has taken too long"
    EXPIRY = "look for ids that are no longer used"


class TransactionMachine:
    """All transactional ids. `transactions` is read-only for callers."""

    def __init__(
        self,
        config: TransactionConfig,
        new_producer_id: Callable[[], int],
        timers: Timers[tuple[Due, str]],
    ) -> None:
        self.transactions: dict[str, Transaction] = {}
        self._config = config
        self._new_producer_id = new_producer_id
        self._prepared: dict[str, None] = {}
        self._timers = timers
        self._to_look_through: deque[str] | None = None
        self._quiet_since_ms: dict[str, float] = {}
        """The monotonic time since when each unused id has had no new record."""

    # Replay

    def replay(self, key: TransactionLogKey, value: TransactionLogValue | None) -> None:
        """Applies a record of `__transaction_state`."""
        transactional_id = key.transactional_id
        self._quiet_since_ms.pop(transactional_id, None)
        if value is None:
            self.transactions.pop(transactional_id, None)
            self._prepared.pop(transactional_id, None)
            return
        known = self.transactions.get(transactional_id)
        if known is None:
            known = Transaction(transactional_id=transactional_id)
            self.transactions[transactional_id] = known
        known.take(value)
        if known.is_prepared:
            self._prepared[transactional_id] = None
        else:
            self._prepared.pop(transactional_id, None)

    def loaded(self, at: Timestamps) -> None:
        """Call after the replay: ongoing transactions continue with their remaining time.

        The remaining time never exceeds the timeout, even if the clock was set back.
        """
        for _ in self.loaded_in_steps(lambda: at):
            pass

    def loaded_in_steps(self, now: Callable[[], Timestamps]) -> Iterator[None]:
        """Like `loaded`, in short steps."""
        limit_ms = self._config.transactional_id_expiration_ms
        for number, (key, one) in enumerate(list(self.transactions.items()), 1):
            at = now()
            self._quiet_since_ms[key] = silent_since_ms(at, one.update_ms, limit_ms)
            if one.is_ongoing:
                left_ms = one.start_ms + one.timeout_ms - at.now_ms
                self._set_timeout(key, min(max(left_ms, 0), one.timeout_ms), at)
            if not number % PART_SIZE:
                yield
        self._set_expiry_timer(now())

    # Producers

    def init_producer(self, request: InitRequest, at: Timestamps) -> Decision[ProducerAnswer]:
        """Handles InitProducerId: assigns an id and epoch, and fences earlier producers.

        CONCURRENT_TRANSACTIONS with records means that an open transaction is aborted first; the
        client repeats the request until the abort is complete.
        """
        key = request.transactional_id
        try:
            self._check_request(request)
            known = self.transactions.get(key) or Transaction(transactional_id=key)
            change = init_producer(known, request, self._new_producer_id, at.now_ms)
        except ApiError as error:
            return Decision(key=key, answer=ProducerAnswer(error=error.code))
        if change.state is TransactionState.PREPARE_ABORT:
            answer = ProducerAnswer(error=ErrorCode.CONCURRENT_TRANSACTIONS)
        else:
            answer = ProducerAnswer(producer_id=change.producer_id, epoch=change.epoch)
        return _decide(key, change, answer)

    def _check_request(self, request: InitRequest) -> None:
        if not request.transactional_id:
            raise ApiError(ErrorCode.INVALID_REQUEST)
        if not 0 < request.timeout_ms <= self._config.transaction_max_timeout_ms:
            raise ApiError(ErrorCode.INVALID_TRANSACTION_TIMEOUT)

    # Transactions

    def add_partitions(
        self,
        claim: ProducerClaim,
        partitions: Iterable[TopicPartition],
        at: Timestamps,
        *,
        client_version: int = 0,
    ) -> Decision[Outcome]:
        """Adds partitions to the transaction; begins one if none is open."""
        key = claim.transactional_id
        added = frozenset(partitions)
        try:
            known = self._producer(claim)
        except ApiError as error:
            return Decision(key=key, answer=Outcome(error=error.code))
        if known.is_prepared:
            return Decision(key=key, answer=Outcome(error=ErrorCode.CONCURRENT_TRANSACTIONS))
        if known.is_ongoing and added <= known.partitions:
            return Decision(key=key, answer=Outcome())
        start_ms = known.start_ms
        if not known.is_ongoing:
            start_ms = at.now_ms
            self._set_timeout(key, known.timeout_ms, at)
        change = known.change(
            TransactionState.ONGOING,
            at.now_ms,
            added,
            start_ms=start_ms,
            client_version=client_version,
        )
        return _decide(key, change, Outcome())

    def verify(
        self, claim: ProducerClaim, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, ErrorCode]:
        """Returns for each partition whether it belongs to the open transaction (KIP-890).

        The error is TRANSACTION_ABORTABLE if it does not.
        """
        wanted = list(partitions)
        try:
            known = self._producer(claim)
        except ApiError as error:
            return dict.fromkeys(wanted, error.code)
        if known.is_prepared:
            return dict.fromkeys(wanted, ErrorCode.CONCURRENT_TRANSACTIONS)
        return {
            where: ErrorCode.NONE if where in known.partitions else ErrorCode.TRANSACTION_ABORTABLE
            for where in wanted
        }

    def _producer(self, claim: ProducerClaim) -> Transaction:
        if not claim.transactional_id:
            raise ApiError(ErrorCode.INVALID_REQUEST)
        known = self.transactions.get(claim.transactional_id)
        if known is None:
            raise ApiError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        known.check_producer(claim.producer_id, claim.epoch)
        return known

    def end(
        self, claim: ProducerClaim, at: Timestamps, *, is_commit: bool, client_version: int = 0
    ) -> Decision[ProducerAnswer]:
        """Handles EndTxn; version 2 producers continue with the returned id and epoch (KIP-890)."""
        key = claim.transactional_id
        try:
            if not key:
                raise ApiError(ErrorCode.INVALID_REQUEST)
            known = self.transactions.get(key)
            if known is None:
                raise ApiError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
            change = end_producer(
                known, claim, is_commit, client_version, self._new_producer_id, at.now_ms
            )
        except ApiError as error:
            return Decision(key=key, answer=ProducerAnswer(error=error.code))
        if change is None:
            producer_id, epoch = known.client_identity
            return Decision(key=key, answer=ProducerAnswer(producer_id=producer_id, epoch=epoch))
        producer_id, epoch = change.client_identity
        return _decide(key, change, ProducerAnswer(producer_id=producer_id, epoch=epoch))

    # Markers

    @property
    def prepared(self) -> list[MarkersToWrite]:
        """The transactions whose outcome is decided and whose markers are not all written."""
        return self.prepared_among(self._prepared)

    def prepared_among(self, keys: Iterable[str]) -> list[MarkersToWrite]:
        """Those of the given ids, in their order."""
        return [self.markers_of(self.transactions[one]) for one in keys if one in self._prepared]

    def markers_of(self, known: Transaction) -> MarkersToWrite:
        return MarkersToWrite(
            transactional_id=known.transactional_id,
            producer_id=known.producer_id,
            epoch=known.epoch,
            is_commit=known.state is TransactionState.PREPARE_COMMIT,
            partitions=known.partitions,
        )

    def complete(self, transactional_id: str, at: Timestamps) -> Decision[Outcome]:
        """Completes a transaction whose markers are all written."""
        known = self.transactions[transactional_id]
        is_commit = known.state is TransactionState.PREPARE_COMMIT
        state = TransactionState.COMPLETE_COMMIT if is_commit else TransactionState.COMPLETE_ABORT
        producer_id, epoch = known.client_identity
        changes = {"producer_id": producer_id, "epoch": epoch}
        if known.next_producer_id != NO_PRODUCER_ID:
            changes["previous_producer_id"] = known.producer_id
        return _decide(transactional_id, known.change(state, at.now_ms, **changes), Outcome())

    # Questions

    def describe(self, transactional_id: str) -> TransactionDescription | None:
        known = self.transactions.get(transactional_id)
        return None if known is None else _described(known)

    def list_transactions(self) -> Iterator[TransactionDescription]:
        """Lazily, of those that there are now."""
        return map(_described, list(self.transactions.values()))

    # Time

    def advance(self, at: Timestamps) -> Decision[Answer] | None:
        """Handles one expired deadline; call until it returns `None`, at once or later.

        Each decision must be replayed before the next one can be made.
        """
        due = self._timers.first_due(at.monotonic_ms)
        if due is None:
            return None
        what, key = due
        if what is Due.TIMEOUT:
            self._timers.cancel(due)
            return self._time_out(key, at)
        if self._to_look_through is None:
            self._to_look_through = deque(self.transactions)
        if self._to_look_through:
            self._timers.set(due, at.monotonic_ms)  # stays due, but after all others
            return self._expire(self._to_look_through.popleft(), at)
        self._to_look_through = None
        self._set_expiry_timer(at)
        return self.advance(at)

    def _time_out(self, key: str, at: Timestamps) -> Decision[Answer]:
        known = self.transactions.get(key)
        if known is None or not known.is_ongoing:
            return Decision(key=key)
        timed_out = TransactionTimedOut(
            transactional_id=key,
            producer_id=known.producer_id,
            timeout_ms=known.timeout_ms,
            partition_count=len(known.partitions),
        )
        return _decide(key, fence(known, at.now_ms))._replace(events=(timed_out,))

    def _expire(self, key: str, at: Timestamps) -> Decision[Answer]:
        known = self.transactions.get(key)
        if known is None or known.is_ongoing or known.is_prepared:
            return Decision(key=key)
        since_ms = self._quiet_since_ms.setdefault(key, at.monotonic_ms)
        if at.monotonic_ms - since_ms < self._config.transactional_id_expiration_ms:
            return Decision(key=key)
        tombstone = CoordinatorRecord(TransactionLogKey(transactional_id=key), None)
        return Decision(key=key, records=(tombstone,))

    def _set_timeout(self, key: str, left_ms: int, at: Timestamps) -> None:
        self._timers.set((Due.TIMEOUT, key), at.monotonic_ms + left_ms)

    def _set_expiry_timer(self, at: Timestamps) -> None:
        interval_ms = self._config.transaction_remove_expired_transaction_cleanup_interval_ms
        self._timers.set((Due.EXPIRY, ""), at.monotonic_ms + interval_ms)

    # When the log takes no records

    def refused(
        self, decision: Decision[AnswerT], code: ErrorCode, at: Timestamps
    ) -> Decision[AnswerT]:
        """Returns the decision to use if the records of `decision` could not be appended."""
        timeout = (Due.TIMEOUT, decision.key)
        known = self.transactions.get(decision.key)
        if known is not None and known.is_ongoing and timeout not in self._timers:
            self._timers.set(timeout, at.monotonic_ms + RETRY_MS)
        answer = decision.answer
        return Decision(key=decision.key, answer=None if answer is None else answer.refused(code))


def _decide(key: str, change: Change, answer: AnswerT | None = None) -> Decision[AnswerT]:
    record = CoordinatorRecord(TransactionLogKey(transactional_id=key), change.to_record())
    return Decision(key=key, records=(record,), answer=answer)


def _described(known: Transaction) -> TransactionDescription:
    return TransactionDescription(
        transactional_id=known.transactional_id,
        state=known.state.title,
        producer_id=known.producer_id,
        epoch=known.epoch,
        timeout_ms=known.timeout_ms,
        start_ms=known.start_ms,
        topics=by_topic(known.partitions),
    )
