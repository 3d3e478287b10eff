"""Resolves the bounds of a read to offsets. Partitions that the options omit or that the log lacks,
and offsets outside the log, are errors that name them. With `failOnDataLoss=false` what the log has
of a range is read, as by Spark's own Kafka source.
"""

import logging
from collections.abc import Iterable, Sequence

from ottla.base.errors import UserError
from ottla.base.partitions import OffsetRange, TopicPartition
from ottla.sources.bounds import EARLIEST, LATEST, Bound, BoundKind, NoMatch
from ottla.sources.conditions import (
    OFFSETS_NOT_ASSIGNED,
    START_AFTER_END,
    TIMES_NOT_ASSIGNED,
    ConditionError,
)
from ottla.sources.log_source import LogPartition, LogSource
from ottla.sources.options import ReadOptions
from ottla.sources.stream.continuity import Position, continued, report

logger = logging.getLogger(__name__)


def resolve_ranges(
    options: ReadOptions, log: LogSource, there: Sequence[LogPartition]
) -> dict[TopicPartition, OffsetRange]:
    """The offset ranges of a batch read; raises `UserError` for offsets that the log lacks."""
    starting, ending = options.batch_bounds
    starts = resolve_bound(starting, log, there, options.no_match)
    ends = resolve_bound(ending, log, there, NoMatch.LATEST)
    return {one.place: _checked(options, one, starts[one.place], ends[one.place]) for one in there}


def resolve_bound(
    bound: Bound, log: LogSource, there: Sequence[LogPartition], no_match: NoMatch
) -> dict[TopicPartition, int]:
    """An offset for each partition; raises `UserError` if bound and log do not match."""
    _check_partitions(bound, [one.place for one in there])
    if bound.kind is BoundKind.TIMES:
        return _resolve_times(bound, log, there, no_match)
    return {
        one.place: {EARLIEST: one.start_offset, LATEST: one.end_offset}.get(offset, offset)
        for one in there
        for offset in [bound.of(one.place)]
    }


def _resolve_times(
    bound: Bound, log: LogSource, there: Sequence[LogPartition], no_match: NoMatch
) -> dict[TopicPartition, int]:
    found = log.offsets_for_times({one.place: bound.of(one.place) for one in there})
    resolved = {}
    for one in there:
        offset = found[one.place]
        if offset is not None and offset < one.end_offset:
            resolved[one.place] = offset
        elif no_match is NoMatch.LATEST:
            resolved[one.place] = one.end_offset
        else:
            raise UserError(
                f"{one.place}: {bound.option} asks for {bound.of(one.place)}, but no record is "
                f"that late; startingOffsetsByTimestampStrategy=latest would begin at the end"
            )
    return resolved


def _check_partitions(bound: Bound, there: Iterable[TopicPartition]) -> None:
    if bound.for_each is None:
        return
    places = set(there)
    for fault, found in (
        ("says nothing about", places.difference(bound.for_each)),
        ("names partitions that are not read:", set(bound.for_each) - places),
    ):
        if found:
            words = f"{bound.option} {fault} {', '.join(map(str, sorted(found)))}"
            is_of_times = bound.kind is BoundKind.TIMES
            raise ConditionError(words, TIMES_NOT_ASSIGNED if is_of_times else OFFSETS_NOT_ASSIGNED)


def _checked(
    options: ReadOptions, partition: LogPartition, from_offset: int, until_offset: int
) -> OffsetRange:
    """Removed records are a loss, which may be allowed, and so are offsets beyond the end."""
    place = partition.place
    if until_offset < from_offset:
        words = f"{place}: the read would end at {until_offset}, before {from_offset}"
        raise ConditionError(words, START_AFTER_END)
    if until_offset > partition.end_offset:
        words = (
            f"{place}: endingOffsets asks for {until_offset}, but the records that may be read "
            f"end at {partition.end_offset}"
        )
        if options.fail_on_data_loss:
            raise UserError(f"{words} (failOnDataLoss=false reads up to there)")
        logger.warning("%s; the read ends there", words)
        until_offset = partition.end_offset
        from_offset = min(from_offset, until_offset)
    found = continued(place, Position(offset=from_offset), partition)
    report([found.loss] if found.loss else [], fail=options.fail_on_data_loss)
    assert found.offset is not None
    return OffsetRange(from_offset=found.offset, until_offset=max(found.offset, until_offset))
