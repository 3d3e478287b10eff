"""Text about a judged open transaction, and the commands that end it."""

from typing import Any

from ottla.base.times import time_text
from ottla.storage.diagnosis.open_transactions import ENDING, ONGOING, Judged, Verdict, began_ms


def ways_out(judged: Judged, target: str) -> list[str]:
    """The commands that free the partition, or what to wait for; the least intrusive first."""
    holding, coordinated = judged.holding, judged.coordinated
    by_id = f"ottla transactions abort {target} --transactional-id "
    by_place = (
        f"ottla transactions abort {target} --topic {holding.topic} "
        f"--partition {holding.partition} --start-offset {holding.first_offset}"
    )
    if judged.verdict is Verdict.HANGING:
        return [by_place]
    if judged.verdict is Verdict.ENDING:
        return ["wait: its end is decided, and a running broker writes its markers"]
    if coordinated is None:
        return [f"ottla transactions list {target}, to find its transactional id", by_place]
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
    """The verdict as a sentence."""
    coordinated = judged.coordinated
    whose = coordinated and f"transactional id {coordinated.transactional_id}, {coordinated.state}"
    match judged.verdict:
        case Verdict.HANGING:
            is_elsewhere = coordinated is not None and coordinated.state in (ONGOING, *ENDING)
            known = f" ({whose}{', but not in this partition' if is_elsewhere else ''})"
            return f"hangs, no coordinator will end it{known if whose else ''}"
        case Verdict.UNKNOWN:
            return "open, and the state of its coordinator is not available"
        case Verdict.ENDING:
            return f"is being ended: {whose}"
        case Verdict.OVERDUE:
            return f"is overdue: {whose}"
    return f"is open: {whose}"


def holding_fields(judged: Judged, stands_in_the_way: bool, target: str) -> dict[str, Any]:
    """The object for a transaction in `--json`."""
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
        "ways_out": ways_out(judged, target),
    }
