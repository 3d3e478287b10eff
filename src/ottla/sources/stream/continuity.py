"""Decides whether a log continues from a reader's position, and if not, which offsets are lost.

A function of what the reader knew (offset, topic id, leader epoch) and the current log. Offsets
without a record inside the log (compaction, control records, aborted transactions) are no loss.
Kafka's counterpart: the checks of KIP-320, which Spark's own source does not make.
"""

import logging
from collections.abc import Iterable
from enum import Enum

from ottla.base.ids import Uuid
from ottla.base.partitions import TopicPartition
from ottla.base.values import dataclass
from ottla.sources.conditions import (
    OFFSET_CHANGED,
    PARTITIONS_DELETED,
    RANGE_NOT_READ,
    ConditionError,
)
from ottla.sources.log_source import LogPartition

logger = logging.getLogger(__name__)


class LossKind(Enum):
    """The cause of a loss. Only readers of files can distinguish the first two."""

    RETENTION = "retention removed them"
    DELETE_RECORDS = "DeleteRecords removed them"
    REMOVED = "retention or DeleteRecords removed them"
    TRUNCATED = "the log was truncated, and may hold other records there"
    RECREATED = "the topic was deleted and re-created"
    GONE = "the partition is no longer there"


_CONDITIONS = {
    LossKind.RETENTION: RANGE_NOT_READ,
    LossKind.DELETE_RECORDS: RANGE_NOT_READ,
    LossKind.REMOVED: RANGE_NOT_READ,
    LossKind.TRUNCATED: OFFSET_CHANGED,
    LossKind.RECREATED: OFFSET_CHANGED,
    LossKind.GONE: PARTITIONS_DELETED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """The next offset of a reader, and the state of the log when the reader got there."""

    offset: int
    topic_id: Uuid | None = None
    leader_epoch: int | None = None
    """The log's latest epoch then; at least that of the record before `offset`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """Offsets that can no longer be read; `until_offset` is `None` if the end is unknown.

    `continues_at` is the next offset to read, `None` if the partition is gone.
    """

    place: TopicPartition
    kind: LossKind
    from_offset: int
    until_offset: int | None
    continues_at: int | None

    def __str__(self) -> str:
        lost = (
            f"offsets from {self.from_offset} on"
            if self.until_offset is None
            else f"offsets {self.from_offset} to {self.until_offset - 1}"
        )
        return f"{self.place}: {lost} are lost, {self.kind.value}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Continuation:
    """The next offset to read (`None`: the partition is gone), and the loss on the way."""

    offset: int | None
    loss: Loss | None = None


def continued(
    place: TopicPartition, before: Position, now: LogPartition | None, parts_at: int | None = None
) -> Continuation:
    """Compares a position with the log; `parts_at` is where the log diverged, if below the
    position.
    """

    def lost(kind: LossKind, until: int | None, at: int | None, *, begin: int) -> Continuation:
        loss = Loss(place=place, kind=kind, from_offset=begin, until_offset=until, continues_at=at)
        return Continuation(offset=at, loss=loss)

    offset = before.offset
    if now is None:
        return lost(LossKind.GONE, None, None, begin=offset)
    if is_recreated(before.topic_id, now.topic_id):
        return lost(LossKind.RECREATED, None, now.start_offset, begin=offset)
    end = now.end_offset if now.log_end_offset is None else now.log_end_offset
    parted = end if parts_at is None else min(parts_at, end)
    if parts_at is not None or offset > end:
        at = max(parted, now.start_offset)
        return lost(LossKind.TRUNCATED, offset, at, begin=parted)
    if now.start_offset > offset:
        return lost(_remover(now), now.start_offset, now.start_offset, begin=offset)
    return Continuation(offset=offset)


def is_recreated(before: Uuid | None, now: Uuid | None) -> bool:
    """Whether both ids are known and differ."""
    return before is not None and now is not None and before != now


def report(losses: Iterable[Loss], *, fail: bool) -> None:
    """Raises `ConditionError` that names every loss, or logs a line for each."""
    found = list(losses)
    if found and fail:
        text = "; ".join(map(str, found))
        words = f"{text} (failOnDataLoss=false reads on{_where(found)})"
        raise ConditionError(words, _CONDITIONS[found[0].kind])
    for loss in found:
        logger.warning("%s; %s", loss, _continuation(loss))


def _where(losses: list[Loss]) -> str:
    if len(losses) > 1 or losses[0].continues_at is None:
        return " with what is there"
    return f" at offset {losses[0].continues_at}"


def _continuation(loss: Loss) -> str:
    if loss.continues_at is None:
        return "the partition is no longer read"
    return f"reading continues at offset {loss.continues_at}"


def _remover(now: LogPartition) -> LossKind:
    if now.first_segment_offset is None:
        return LossKind.REMOVED
    if now.start_offset > now.first_segment_offset:
        return LossKind.DELETE_RECORDS
    return LossKind.RETENTION
