"""What holds a partition's last stable offset back, and what frees it: values and one judgement.

A producer's transaction is open in a partition until its marker is there. The coordinator writes
markers for what it knows to be open; what it does not know hangs until a person ends it (KIP-664).
Kafka's counterpart: `TransactionsCommand.FindHangingTransactionsCommand`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from ottla.cli.log_text import time_text

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
    """The time of its first record there; `None` over the wire, where nobody tells it."""
    last_timestamp_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatedTransaction:
    """A transactional id as its coordinator has it; `start_ms` is -1 while nothing is open."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    state: str
    timeout_ms: int
    start_ms: int
    partitions: frozenset[tuple[str, int]]

    @property
    def due_ms(self) -> int | None:
        """When the coordinator aborts it, if it goes on."""
        is_running = self.state == ONGOING and self.start_ms >= 0
        return self.start_ms + self.timeout_ms if is_running else None


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorView:
    """What is known of coordinators; if `is_complete`, who is not in it has no transaction."""

    transactions: Sequence[CoordinatedTransaction]
    is_complete: bool

    def find(self, producer_id: int) -> CoordinatedTransaction | None:
        return next((one for one in self.transactions if one.producer_id == producer_id), None)


NO_COORDINATOR = CoordinatorView(transactions=(), is_complete=False)


class Verdict(Enum):
    """Why a transaction is open."""

    OPEN = "open"
    """Its producer may go on with it."""
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


def ways_out(judged: Judged, bootstrap: str) -> list[str]:
    """The exact commands that free the partition, or what to wait for; the gentlest first."""
    holding, coordinated = judged.holding, judged.coordinated
    by_id = f"ottla transactions abort --bootstrap {bootstrap} --transactional-id "
    by_place = (
        f"ottla transactions abort --bootstrap {bootstrap} --topic {holding.topic} "
        f"--partition {holding.partition} --start-offset {holding.first_offset}"
    )
    if judged.verdict is Verdict.HANGING:
        return [by_place]
    if judged.verdict is Verdict.ENDING:
        return ["wait: its end is decided, and its markers are written while a broker runs"]
    if coordinated is None:
        return [f"ottla transactions list --bootstrap {bootstrap}, to see whose it is", by_place]
    if judged.verdict is Verdict.OVERDUE:
        return [
            "wait: a running broker aborts it within transaction.abort.timed.out.transaction."
            "cleanup.interval.ms",
            by_id + coordinated.transactional_id,
        ]
    due = time_text(coordinated.due_ms) if coordinated.due_ms is not None else "its timeout"
    return [
        f"wait: its producer ends it, or the coordinator aborts it at {due}",
        f"{by_id}{coordinated.transactional_id} (its producer is fenced)",
    ]


def verdict_text(judged: Judged) -> str:
    """The judgement in a sentence."""
    coordinated = judged.coordinated
    whose = coordinated and f"transactional id {coordinated.transactional_id}, {coordinated.state}"
    match judged.verdict:
        case Verdict.HANGING:
            is_elsewhere = coordinated is not None and coordinated.state in (ONGOING, *ENDING)
            known = f" ({whose}{', but not in this partition' if is_elsewhere else ''})"
            return f"hangs, no coordinator will end it{known if whose else ''}"
        case Verdict.UNKNOWN:
            return "open, and what its coordinator knows cannot be seen from here"
        case Verdict.ENDING:
            return f"is being ended: {whose}"
        case Verdict.OVERDUE:
            return f"is overdue: {whose}"
    return f"is open: {whose}"


def holding_fields(judged: Judged, stands_in_the_way: bool, bootstrap: str) -> dict[str, Any]:
    """One object of `--json`."""
    holding, coordinated = judged.holding, judged.coordinated
    return {
        "type": "transaction",
        "topic": holding.topic,
        "partition": holding.partition,
        "producer_id": holding.producer_id,
        "producer_epoch": holding.producer_epoch,
        "first_offset": holding.first_offset,
        "began_ms": began_ms(judged),
        "last_timestamp_ms": holding.last_timestamp_ms,
        "is_first": stands_in_the_way,
        "verdict": judged.verdict.value,
        "transactional_id": coordinated and coordinated.transactional_id,
        "state": coordinated and coordinated.state,
        "due_ms": coordinated and coordinated.due_ms,
        "ways_out": ways_out(judged, bootstrap),
    }


def began_ms(judged: Judged) -> int | None:
    """When it began: by its first record, or by its coordinator."""
    if judged.holding.began_ms is not None:
        return judged.holding.began_ms
    coordinated = judged.coordinated
    return coordinated.start_ms if coordinated is not None and coordinated.start_ms >= 0 else None


def oldest_first(judged: Iterable[Judged]) -> list[Judged]:
    return sorted(judged, key=lambda one: (one.holding.partition, one.holding.first_offset))
