"""Explicit bounds of a load: `--from` and `--to`.

`--from` is allowed for the first load only: each later load begins where the previous one ended, so
that no gap arises. `--to` is allowed for any load except one that follows the topic.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from ottla.base.errors import UserError
from ottla.base.partitions import OffsetRange, TopicPartition
from ottla.base.patterns import lazy_pattern
from ottla.loading.plan import PlannedRange
from ottla.sources.bounds import EARLIEST, LATEST, Bound, BoundKind

_WORDS = {"earliest": EARLIEST, "latest": LATEST}
_EACH = lazy_pattern(r"\d+:\d+(,\d+:\d+)*")
_MILLISECONDS = lazy_pattern(r"@(\d+)")


def parse_place(option: str, text: str, topic: str) -> Bound:
    """Parses the value of `--from` or `--to`.

    It is `earliest`, `latest`, an offset, `PARTITION:OFFSET,...`, `@MILLISECONDS`, or an ISO time.
    A time without a zone is UTC. Raises `UserError`.
    """
    word = text.strip().lower()
    if word in _WORDS:
        return Bound(option=option, for_all=_WORDS[word])
    if word.isascii() and word.isdigit():
        return Bound(option=option, for_all=int(word))
    if _EACH.fullmatch(word):
        pairs = [one.split(":") for one in word.split(",")]
        for_each = {TopicPartition(topic, int(number)): int(offset) for number, offset in pairs}
        if len(for_each) < len(pairs):
            raise UserError(f"{option} {text} names a partition twice")
        return Bound(option=option, for_each=for_each)
    return Bound(option=option, kind=BoundKind.TIMES, for_all=_time_ms(option, text.strip()))


def bounded(
    plan: Sequence[PlannedRange],
    starts: Mapping[TopicPartition, int] | None,
    ends: Mapping[TopicPartition, int] | None,
) -> tuple[PlannedRange, ...]:
    """Limits the plan to the given bounds; raises `UserError` for a bound outside the plan."""
    return tuple(
        _bounded(
            one,
            one.from_offset if starts is None else starts.get(one.place, one.from_offset),
            one.until_offset if ends is None else ends.get(one.place, one.until_offset),
        )
        for one in plan
    )


def _bounded(planned: PlannedRange, from_offset: int, until_offset: int) -> PlannedRange:
    lost = planned.lost
    if lost is not None and lost.from_offset <= until_offset < planned.from_offset:
        # Retention has passed the end: all requested records are lost.
        rest = OffsetRange(from_offset=lost.from_offset, until_offset=until_offset)
        is_lost = lost.from_offset < until_offset
        return replace(
            planned,
            from_offset=until_offset,
            until_offset=until_offset,
            lost=rest if is_lost else None,
        )
    there = f"there are offsets {planned.from_offset} to {planned.until_offset - 1}"
    if planned.is_empty:
        there = f"there is nothing to load at offset {planned.from_offset}"
    if not planned.from_offset <= from_offset <= planned.until_offset:
        raise UserError(f"{planned.place}: --from asks to begin at {from_offset}; {there}")
    if until_offset > planned.until_offset or until_offset < planned.from_offset:
        raise UserError(f"{planned.place}: --to asks to end before {until_offset}; {there}")
    if until_offset < from_offset:
        raise UserError(
            f"{planned.place}: --to ({until_offset}) lies before --from ({from_offset})"
        )
    return replace(planned, from_offset=from_offset, until_offset=until_offset)


def _time_ms(option: str, text: str) -> int:
    found = _MILLISECONDS.fullmatch(text)
    if found:
        return int(found[1])
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise UserError(
            f"{option} takes earliest, latest, an offset, PARTITION:OFFSET,..., "
            f"@MILLISECONDS or a time like 2026-01-31T13:00, not {text!r}"
        ) from None
    zoned = time if time.tzinfo is not None else time.replace(tzinfo=UTC)
    return round(zoned.timestamp() * 1000)
