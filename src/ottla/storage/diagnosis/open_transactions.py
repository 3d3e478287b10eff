"""Judges the open transactions that hold a partition's last stable offset back.

A transaction is open in a partition until its marker is written there. The coordinator writes the
markers of the transactions that it knows. A transaction that it does not know hangs until the user
ends it (KIP-664). Kafka's counterpart: `TransactionsCommand.FindHangingTransactionsCommand`.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from enum import Enum

from ottla.base.partitions import TopicPartition
from ottla.base.values import dataclass

ONGOING = "Ongoing"
ENDING = ("PrepareCommit", "PrepareAbort", "PrepareEpochFence")


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """An open transaction of one producer in one partition."""

    topic: str
    partition: int
    producer_id: int
    producer_epoch: int
    first_offset: int
    began_ms: int | None
    """The time of its first record in the partition; `None` if read over the wire, which lacks
    it."""
    last_timestamp_ms: int

    @property
    def identity(self) -> tuple[str, int, int, int]:
        return self.topic, self.partition, self.first_offset, self.producer_id


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionHeld:
    """A partition with its last stable offset and the open transactions after it, oldest first."""

    topic: str
    partition: int
    where: str
    last_stable_offset: int
    end_offset: int
    holdings: list[Holding]


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatedTransaction:
    """The coordinator's state of a transactional id; `start_ms` is -1 without a transaction."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    state: str
    timeout_ms: int
    start_ms: int
    partitions: frozenset[TopicPartition]

    @property
    def due_ms(self) -> int | None:
        """When the coordinator will abort the ongoing transaction; `None` without one."""
        is_running = self.state == ONGOING and self.start_ms >= 0
        return self.start_ms + self.timeout_ms if is_running else None


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorView:
    """The transactions of coordinators; if `is_complete`, there are no others."""

    transactions: Sequence[CoordinatedTransaction]
    is_complete: bool

    def find(self, producer_id: int) -> CoordinatedTransaction | None:
        return next((one for one in self.transactions if one.producer_id == producer_id), None)


NO_COORDINATOR = CoordinatorView(transactions=(), is_complete=False)


class Verdict(Enum):
    """Why a transaction is open."""

    OPEN = "open"
    """The producer may continue the transaction."""
    OVERDUE = "overdue"
    """The timeout has passed: a running coordinator aborts the transaction in its next round."""
    ENDING = "ending"
    """The transaction was decided, and its markers are being written."""
    HANGING = "hanging"
    """No coordinator knows the transaction, so it will not end automatically."""
    UNKNOWN = "unknown"
    """The state of the coordinators is not available."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """An open transaction with its verdict, and its state at the coordinator, if known."""

    holding: Holding
    verdict: Verdict
    coordinated: CoordinatedTransaction | None


def judge(holding: Holding, view: CoordinatorView, now_ms: int) -> Judged:
    """Decides why a transaction is open."""
    # A coordinator writes markers only to the partitions that it has for the transaction.
    found = view.find(holding.producer_id)
    return Judged(
        holding=holding, verdict=_verdict(holding, found, view, now_ms), coordinated=found
    )


def _verdict(
    holding: Holding, found: CoordinatedTransaction | None, view: CoordinatorView, now_ms: int
) -> Verdict:
    if found is not None and (holding.topic, holding.partition) in found.partitions:
        if found.state in ENDING:
            return Verdict.ENDING
        if found.state == ONGOING:
            is_due = found.due_ms is not None and found.due_ms <= now_ms
            return Verdict.OVERDUE if is_due else Verdict.OPEN
    # The last state of the transactional id may be among what is not known.
    return Verdict.HANGING if view.is_complete else Verdict.UNKNOWN


def began_ms(judged: Judged) -> int | None:
    """When the transaction began, by its first record or its coordinator; `None` if unknown."""
    if judged.holding.began_ms is not None:
        return judged.holding.began_ms
    coordinated = judged.coordinated
    return coordinated.start_ms if coordinated is not None and coordinated.start_ms >= 0 else None


def seen_twice(
    look: Callable[[], list[PartitionHeld]], coordinators: Callable[[], CoordinatorView]
) -> tuple[list[PartitionHeld], CoordinatorView]:
    """The transactions that were open before and after the coordinators were asked."""
    # With a running broker, a transaction that began or ended in between would seem to hang.
    before = {one.identity for held in look() for one in held.holdings}
    view = coordinators()
    return [
        replace(held, holdings=[one for one in held.holdings if one.identity in before])
        for held in look()
    ], view


def hanging(
    look: Callable[[], list[Holding]], coordinators: Callable[[], CoordinatorView], now_ms: int
) -> list[Judged]:
    """The open transactions that no coordinator will end; as `seen_twice`, looks twice."""
    before = {one.identity for one in look()}
    view = coordinators()
    judged = [judge(one, view, now_ms) for one in look() if one.identity in before]
    return sorted(
        (one for one in judged if one.verdict is Verdict.HANGING),
        key=lambda one: one.holding.identity,
    )
