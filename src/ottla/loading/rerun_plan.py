"""The offsets that a rerun reads again, from the contents of the table and the log.

A range that the log does not have completely is an error: a rerun must never remove rows that it
cannot restore.
"""

from collections.abc import Mapping, Sequence

from ottla.base.errors import UserError
from ottla.base.partitions import OffsetRange, TopicPartition
from ottla.base.values import dataclass
from ottla.loading.bounds import parse_place
from ottla.loading.plan import PlannedRange
from ottla.sources.bounds import Bound
from ottla.sources.log_source import LogPartition
from ottla.tables import Piece, first_gap


@dataclass(frozen=True, slots=True, kw_only=True)
class RerunRange:
    """The range to read again; `None` means the table's own begin or end.

    Partitions for which a bound names no offset are not read.
    """

    begin: Bound | None = None
    end: Bound | None = None
    keeps_unread: bool = False
    """As `ReadRanges.keeps_unread`."""

    def names(self, place: TopicPartition) -> bool:
        bounds = [bound for bound in (self.begin, self.end) if bound is not None]
        return all(bound.for_each is None or place in bound.for_each for bound in bounds)


def rerun_range(begin: str | None, end: str | None, topic: str) -> RerunRange:
    """Parses the bounds that a user typed (`bounds.parse_place`); raises `UserError`."""
    return RerunRange(
        begin=None if begin is None else parse_place("--from", begin, topic),
        end=None if end is None else parse_place("--to", end, topic),
    )


def plan_rerun(
    wanted: Mapping[int, OffsetRange],
    pieces: Mapping[int, Sequence[Piece]],
    log: Sequence[LogPartition],
) -> tuple[PlannedRange, ...]:
    """One range per partition of the log, most of them empty; raises `UserError`.

    Offsets beyond the table's own are left to the next load.
    """
    plan = tuple(
        _planned(one, wanted.get(one.partition), pieces.get(one.partition, ()))
        for one in sorted(log, key=lambda one: one.partition)
    )
    if all(one.is_empty for one in plan):
        raise UserError("the table has no offsets in that range; there is nothing to read again")
    return plan


def _planned(
    log: LogPartition, wanted: OffsetRange | None, pieces: Sequence[Piece]
) -> PlannedRange:
    from_offset = until_offset = log.start_offset
    if wanted is not None and pieces:
        begin = max(wanted.from_offset, pieces[0].from_offset)
        end = min(wanted.until_offset, pieces[-1].until_offset)
        if begin < end:
            from_offset, until_offset = begin, end
            _check_range(log, OffsetRange(from_offset=begin, until_offset=end), pieces)
    return PlannedRange(
        topic=log.topic,
        topic_id=log.topic_id,
        partition=log.partition,
        from_offset=from_offset,
        until_offset=until_offset,
        log_end_offset=log.log_end_offset,
    )


def _check_range(log: LogPartition, wanted: OffsetRange, pieces: Sequence[Piece]) -> None:
    place = f"{log.topic}-{log.partition}"
    if wanted.from_offset < log.start_offset:
        raise UserError(
            f"{place}: the log starts at {log.start_offset}, so offsets from "
            f"{wanted.from_offset} cannot be read again; rerun from {log.start_offset}"
        )
    if wanted.until_offset > log.end_offset:
        raise UserError(
            f"{place}: the table has offsets below {wanted.until_offset}, but the log ends at "
            f"{log.end_offset}; it was cut, or is another log"
        )
    gap = first_gap(pieces, wanted)
    if gap is not None:
        raise UserError(
            f"{place}: offset {gap} was never loaded; rerun the ranges before and after the gap"
        )
