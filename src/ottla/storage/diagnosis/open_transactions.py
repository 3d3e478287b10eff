"""What holds a partition's last stable offset back, and what frees it: values and one judgement.

A producer's transaction is open in a partition until its marker is there. The coordinator writes
markers for what it knows to be open; what it does not know hangs until a person ends it (KIP-664).
Kafka's counterpart: `TransactionsCommand.FindHangingTransactionsCommand`.
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
    """The time of its first record there; `None` over the wire, which does not carry it."""
    last_timestamp_ms: int

    @property
    def identity(self) -> tuple[str, int, int, int]:
        return self.topic, self.partition, self.first_offset, self.producer_id


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionHeld:
    """One partition: up to where it is stable, and what is open after that, oldest first."""

    topic: str
    partition: int
    where: str
    last_stable_offset: int
    end_offset: int
    holdings: list[Holding]


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatedTransaction:
    """A transactional id as its coordinator has it; `start_ms` is -1 while nothing is open."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    state: str
    timeout_ms: int
    start_ms: int
    partitions: frozenset[TopicPartition]

    @property
    def due_ms(self) -> int | None:
        """When the coordinator aborts it, if it continues."""
        is_running = self.state == ONGOING and self.start_ms >= 0
        return self.start_ms + self.timeout_ms if is_running else None


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorView:
    """What is known of coordinators; if `is_complete`, producers not in it have no transaction."""

    transactions: Sequence[CoordinatedTransaction]
    is_complete: bool

    def find(self, producer_id: int) -> CoordinatedTransaction | None:
        return next((one for one in self.transactions if one.producer_id == producer_id), None)


NO_COORDINATOR = CoordinatorView(transactions=(), is_complete=False)


class Verdict(Enum):
    """Why a transaction is open."""

    OPEN = "open"
    """Its producer may continue with it."""
    OVERDUE = "overdue"
    """Its timeout has passed: a running coordinator aborts it within its next round."""
    ENDING = "ending"
    """It was decided, and its markers are under way."""
    HANGING = "hanging"
    """No coordinator knows of it, so nobody will end it."""
    UNKNOWN = "unknown"
    """What coordinators know of it cannot be seen from here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A holding with what its coordinator makes of it."""

    holding: Holding
    verdict: Verdict
    coordinated: CoordinatedTransaction | None


def judge(holding: Holding, view: CoordinatorView, now_ms: int) -> Judged:
    """Why it is open; a coordinator that does not name the partition will not end it there."""
    found = view.find(holding.producer_id)
    return Judged(
        holding=holding, verdict=_verdict(holding, found, view, now_ms), coordinated=found
    )


def _verdict(
    holding: Holding, found: CoordinatedTransaction | None, view: CoordinatorView, now_ms: int
) -> Verdict:
    if found is None:
        return Verdict.HANGING if view.is_complete else Verdict.UNKNOWN
    if (holding.topic, holding.partition) in found.partitions:
        if found.state in ENDING:
            return Verdict.ENDING
        if found.state == ONGOING:
            is_due = found.due_ms is not None and found.due_ms <= now_ms
            return Verdict.OVERDUE if is_due else Verdict.OPEN
    return Verdict.HANGING


def began_ms(judged: Judged) -> int | None:
    """When it began: by its first record, or by its coordinator."""
    if judged.holding.began_ms is not None:
        return judged.holding.began_ms
    coordinated = judged.coordinated
    return coordinated.start_ms if coordinated is not None and coordinated.start_ms >= 0 else None


def seen_twice(
    look: Callable[[], list[PartitionHeld]], coordinators: Callable[[], CoordinatorView]
) -> tuple[list[PartitionHeld], CoordinatorView]:
    """What was open before coordinators were asked and still is afterwards.

    Under a running broker, what began or ended in between would seem to hang.
    """
    before = {one.identity for held in look() for one in held.holdings}
    view = coordinators()
    return [
        replace(held, holdings=[one for one in held.holdings if one.identity in before])
        for held in look()
    ], view


def hanging(
    look: Callable[[], list[Holding]], coordinators: Callable[[], CoordinatorView], now_ms: int
) -> list[Judged]:
    """What was open before coordinators were asked and still is, and no coordinator will end."""
    before = {one.identity for one in look()}
    view = coordinators()
    judged = [judge(one, view, now_ms) for one in look() if one.identity in before]
    return sorted(
        (one for one in judged if one.verdict is Verdict.HANGING),
        key=lambda one: one.holding.identity,
    )
