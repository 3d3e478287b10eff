"""A transaction machine with its log beside it, on a clock that stands still until it is moved."""

from collections.abc import Callable
from itertools import count
from typing import Any

from ottla.base.error_codes import ErrorCode
from ottla.base.timers import Timers
from ottla.base.timestamps import Timestamps
from ottla.config.transaction import TransactionConfig
from ottla.coordinator.decision import AnswerT, CoordinatorRecord, Decision
from ottla.coordinator.transaction.machine import TransactionMachine
from ottla.coordinator.transaction.records import TransactionLogKey, TransactionLogValue
from ottla.coordinator.transaction.requests import (
    InitRequest,
    Outcome,
    ProducerAnswer,
    ProducerClaim,
)
from ottla.coordinator.transaction.transaction import Transaction

START_MS = 1_700_000_000_000
FIRST_ID = 100
WHERE = ("t", 0)


class TransactionLog:
    """Runs the machine as the broker does, and keeps the records it asks for."""

    def __init__(self, config: TransactionConfig | None = None) -> None:
        self.config = config or TransactionConfig()
        ids = count(FIRST_ID)
        self.new_id: Callable[[], int] = lambda: next(ids)
        self.machine = self._new_machine()
        self.records: list[CoordinatorRecord] = []
        self.elapsed_ms = 0
        self.fast_ms = 0
        """What the wall clock has been set on, or back if negative."""
        self.writes_markers = True
        self.refusal: ErrorCode | None = None
        self.machine.loaded(self.at)

    def _new_machine(self) -> TransactionMachine:
        self.timers: Timers[Any] = Timers()
        return TransactionMachine(self.config, self.new_id, self.timers)

    @property
    def at(self) -> Timestamps:
        now_ms = START_MS + self.elapsed_ms + self.fast_ms
        return Timestamps(now_ms=now_ms, monotonic_ms=float(self.elapsed_ms))

    def restart(self) -> None:
        """A machine that knows only the log."""
        self.machine = self._new_machine()
        for record in self.records:
            self._replay(record)
        self.machine.loaded(self.at)
        self._write_markers()

    def pass_ms(self, elapsed_ms: int) -> None:
        self.elapsed_ms += elapsed_ms
        while (due := self.machine.advance(self.at)) is not None:
            self.run(due)

    def run(self, decision: Decision[AnswerT]) -> AnswerT | None:
        if decision.records and self.refusal is not None:
            return self.machine.refused(decision, self.refusal, self.at).answer
        for record in decision.records:
            self.records.append(record)
            self._replay(record)
        self._write_markers()
        return decision.answer

    def _replay(self, record: CoordinatorRecord) -> None:
        assert isinstance(record.key, TransactionLogKey)
        assert record.value is None or isinstance(record.value, TransactionLogValue)
        self.machine.replay(record.key, record.value)

    def _write_markers(self) -> None:
        for prepared in self.machine.prepared if self.writes_markers else ():
            self.run(self.machine.complete(prepared.transactional_id, self.at))

    # Producers

    def init(
        self,
        key: str = "tx",
        *,
        expected: tuple[int, int] | None = None,
        timeout_ms: int = 60_000,
    ) -> ProducerAnswer:
        request = InitRequest(transactional_id=key, timeout_ms=timeout_ms, expected=expected)
        return self._answer(self.machine.init_producer(request, self.at))

    def add(
        self, claim: ProducerClaim, *where: tuple[str, int], client_version: int = 0
    ) -> ErrorCode:
        decision = self.machine.add_partitions(
            claim, where or (WHERE,), self.at, client_version=client_version
        )
        outcome: Outcome = self._answer(decision)
        return outcome.error

    def end(
        self, claim: ProducerClaim, *, is_commit: bool = True, client_version: int = 0
    ) -> ProducerAnswer:
        decision = self.machine.end(
            claim, self.at, is_commit=is_commit, client_version=client_version
        )
        return self._answer(decision)

    def _answer(self, decision: Decision[AnswerT]) -> AnswerT:
        answer = self.run(decision)
        assert answer is not None
        return answer

    def started(self, key: str = "tx") -> ProducerClaim:
        return claim_of(self.init(key), key)

    def tx(self, key: str = "tx") -> Transaction:
        return self.machine.transactions[key]

    @property
    def states(self) -> list[str]:
        """The states that were written for "tx", in order."""
        titles = []
        for record in self.records:
            value = record.value
            assert isinstance(value, TransactionLogValue)
            copy = Transaction(transactional_id="tx")
            copy.take(value)
            titles.append(copy.state.title)
        return titles


def claim_of(answer: ProducerAnswer, key: str = "tx") -> ProducerClaim:
    assert answer.error is ErrorCode.NONE
    return ProducerClaim(transactional_id=key, producer_id=answer.producer_id, epoch=answer.epoch)
