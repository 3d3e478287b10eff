"""Plans a micro-batch of a stream from the stream's position and the log's state.

New partitions are read from offset 0. A loss is reported exactly: the partition continues at the
log's start or where the log was truncated, other partitions at their positions.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ottla.base.partitions import OffsetRange, TopicPartition
from ottla.base.values import dataclass
from ottla.sources.log_source import LogPartition, LogSource
from ottla.sources.options import TriggerLimits
from ottla.sources.stream.continuity import (
    Continuation,
    Loss,
    LossKind,
    Position,
    continued,
    is_recreated,
)
from ottla.sources.stream.stream_offset import Positions, StreamOffset


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchPlan:
    """The offsets that a batch reads, and those that are lost."""

    ranges: Mapping[TopicPartition, OffsetRange]
    losses: Sequence[Loss]


def go_on(
    positions: Positions, there: Sequence[LogPartition], log: LogSource
) -> dict[TopicPartition, Continuation]:
    """Where each known or existing partition continues."""
    now = {one.place: one for one in there}
    return {
        place: _continued(place, _position(place, positions), now.get(place), log)
        for place in sorted({*positions, *now})
    }


def ends_of(
    begins: Mapping[TopicPartition, Continuation],
    there: Sequence[LogPartition],
    max_offsets: int | None,
) -> dict[TopicPartition, Position]:
    """The end of a batch: all records, or about `max_offsets` in proportion to what is new.

    Each partition with new records contributes at least one offset, so that none starves; none
    contributes if `max_offsets` is 0.
    """
    least = 0 if max_offsets == 0 else 1
    now = {one.place: one for one in there}
    offsets = {place: one.offset for place, one in begins.items() if one.offset is not None}
    sizes = {place: max(0, now[place].end_offset - offsets[place]) for place in offsets}
    total = sum(sizes.values())
    taken = {
        place: size
        if max_offsets is None or total <= max_offsets
        else min(size, max(least, max_offsets * size // total))
        for place, size in sizes.items()
    }
    return {
        place: Position(
            offset=offset + taken[place],
            topic_id=now[place].topic_id,
            leader_epoch=now[place].leader_epoch,
        )
        for place, offset in offsets.items()
    }


def is_due(count: int, limits: TriggerLimits, now_ms: float, last_ms: float | None) -> bool:
    """Whether there are enough new offsets, or the maximum delay has passed."""
    if limits.min_offsets is None or count >= limits.min_offsets or last_ms is None:
        return True
    return count > 0 and now_ms - last_ms >= limits.max_delay_ms


def plan_batch(
    positions: Positions, end: StreamOffset, there: Sequence[LogPartition], log: LogSource
) -> BatchPlan:
    """The ranges of a batch whose end was chosen earlier, perhaps before a restart."""
    now = {one.place: one for one in there}
    ranges: dict[TopicPartition, OffsetRange] = {}
    losses: list[Loss] = []
    for place in sorted({*positions, *end.positions}):
        before = _position(place, positions)
        wanted = _planned(place, before, end.positions.get(place), now.get(place), log)
        losses += wanted.losses
        ranges.update(wanted.ranges)
    return BatchPlan(ranges=ranges, losses=losses)


def _planned(
    place: TopicPartition,
    before: Position,
    end: Position | None,
    now: LogPartition | None,
    log: LogSource,
) -> BatchPlan:
    if end is None or now is None:
        gone = _continued(place, before, None, log)
        return BatchPlan(ranges={}, losses=[gone.loss] if gone.loss else [])
    if is_recreated(end.topic_id, now.topic_id):
        return BatchPlan(
            ranges={},
            losses=[_lost(place, LossKind.RECREATED, before.offset, end.offset, now.start_offset)],
        )
    found = _continued(place, before, now, log)
    losses = [] if found.loss is None else _up_to(found.loss, end.offset)
    assert found.offset is not None
    log_end = now.end_offset if now.log_end_offset is None else now.log_end_offset
    until = min(end.offset, log_end)
    if until < end.offset and found.loss is None:
        losses.append(_lost(place, LossKind.TRUNCATED, until, end.offset, until))
    if found.offset >= until:
        return BatchPlan(ranges={}, losses=losses)
    wanted = OffsetRange(from_offset=found.offset, until_offset=until)
    return BatchPlan(ranges={place: wanted}, losses=losses)


def _position(place: TopicPartition, positions: Positions) -> Position:
    """The position in a partition; a new one begins at 0, with the topic id of its siblings."""
    known = positions.get(place)
    if known is not None:
        return known
    ids = (one.topic_id for other, one in positions.items() if other.topic == place.topic)
    return Position(offset=0, topic_id=next(ids, None))


def _continued(
    place: TopicPartition, before: Position, now: LogPartition | None, log: LogSource
) -> Continuation:
    if now is None or not _is_later_epoch(before, now):
        return continued(place, before, now)
    assert before.leader_epoch is not None
    parts_at = log.divergence_offset(place, before.leader_epoch, before.offset)
    return continued(place, before, now, parts_at)


def _is_later_epoch(before: Position, now: LogPartition) -> bool:
    """Whether another leader has written since; only then can the log have diverged."""
    if before.leader_epoch is None or now.leader_epoch is None:
        return False
    same_topic = not is_recreated(before.topic_id, now.topic_id)
    return same_topic and before.leader_epoch < now.leader_epoch


def _up_to(loss: Loss, end_offset: int) -> list[Loss]:
    """The part of a loss that belongs to this batch; the next batch reports the rest."""
    assert loss.until_offset is None or loss.from_offset < loss.until_offset
    if loss.until_offset is None or loss.until_offset <= end_offset:
        return [loss]
    if loss.from_offset >= end_offset:
        return []
    return [replace(loss, until_offset=end_offset)]


def _lost(
    place: TopicPartition, kind: LossKind, from_offset: int, until_offset: int, at: int
) -> Loss:
    return Loss(
        place=place,
        kind=kind,
        from_offset=from_offset,
        until_offset=until_offset,
        continues_at=at,
    )
