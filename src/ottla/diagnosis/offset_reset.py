"""Parses where a group should continue, and plans the resulting offsets.

Kafka's counterpart: `kafka-consumer-groups --reset-offsets`.
"""

import csv
import io
from collections.abc import Mapping
from datetime import UTC, datetime
from enum import Enum

from ottla.base.errors import UserError
from ottla.base.partitions import TopicPartition
from ottla.base.texts import age_ms, whole_number
from ottla.base.values import dataclass

_ENDS = {"beginning": "earliest", "end": "latest"}
"""The words of `ottla consume` for those of Kafka's tools, which are accepted too."""


PLACES = "beginning, end, current, an offset, @TIME such as @2026-01-31T12:00, or an age such as 2h"


class ResetKind(Enum):
    """How the new offsets are determined."""

    EARLIEST = "earliest"
    LATEST = "latest"
    CURRENT = "current"
    OFFSET = "offset"
    TIME = "time"
    SHIFT = "shift"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reset:
    """The new place; `number` is an offset, a timestamp in milliseconds, or a shift."""

    kind: ResetKind
    number: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedOffset:
    """A partition's offset now and after the reset.

    `is_clamped` says that the requested offset is outside the log, and its nearest end is used.
    """

    place: TopicPartition
    before: int | None
    after: int
    end_offset: int
    is_clamped: bool = False

    @property
    def is_changed(self) -> bool:
        return self.before != self.after


def parse_place(option: str, text: str, now_ms: int) -> Reset:
    """Parses a place in a log, one of `PLACES`; raises `UserError`."""
    text = _ENDS.get(text.strip(), text.strip())
    if text in ("earliest", "latest", "current"):
        return Reset(kind=ResetKind(text))
    if (number := whole_number(text)) is not None:
        return Reset(kind=ResetKind.OFFSET, number=number)
    if text.startswith("@"):
        return Reset(kind=ResetKind.TIME, number=parse_time(option, text[1:]))
    if (age := age_ms(text)) is not None and age < now_ms:
        return Reset(kind=ResetKind.TIME, number=round(now_ms - age))
    raise UserError(f"{option} {text}: a place is {PLACES}")


def parse_time(option: str, text: str) -> int:
    """Parses a date (UTC without a zone) or milliseconds to milliseconds; raises `UserError`."""
    if (number := whole_number(text)) is not None:
        return number
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise UserError(
            f"{option} {text}: a time is 2026-01-31T12:00:00, or milliseconds"
        ) from None
    return round((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)


def plan_reset(
    reset: Reset,
    committed: Mapping[TopicPartition, int],
    bounds: Mapping[TopicPartition, tuple[int, int]],
    at_time: Mapping[TopicPartition, int],
) -> list[PlannedOffset]:
    """The new offset of each partition in `bounds`, which are start and end offsets.

    `at_time` are the offsets at the reset's time, -1 for the end. A partition without a committed
    offset is left out if the place depends on it.
    """
    planned = []
    for place in sorted(bounds):
        wanted = _wanted(reset, committed.get(place), bounds[place], at_time.get(place, -1))
        if wanted is None:
            continue
        start, end = bounds[place]
        after = min(max(wanted, start), end)
        planned.append(
            PlannedOffset(
                place=place,
                before=committed.get(place),
                after=after,
                end_offset=end,
                is_clamped=after != wanted,
            )
        )
    return planned


def _wanted(reset: Reset, before: int | None, bounds: tuple[int, int], at_time: int) -> int | None:
    match reset.kind:
        case ResetKind.EARLIEST:
            return bounds[0]
        case ResetKind.LATEST:
            return bounds[1]
        case ResetKind.OFFSET:
            return reset.number
        case ResetKind.TIME:
            return bounds[1] if at_time < 0 else at_time
        case ResetKind.CURRENT:
            return before
        case ResetKind.SHIFT:
            return None if before is None else before + reset.number


def csv_of(planned: list[PlannedOffset]) -> str:
    """Lines of topic, partition and offset, as Kafka's own tool writes them."""
    text = io.StringIO()
    rows = [(one.place.topic, one.place.partition, one.after) for one in planned]
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def read_csv(name: str, text: str) -> dict[TopicPartition, int]:
    """The inverse of `csv_of`; raises `UserError` naming the line."""
    found = {}
    for number, row in enumerate(csv.reader(io.StringIO(text)), 1):
        if not row:
            continue
        try:
            topic, partition, offset = row
            found[TopicPartition(topic.strip(), int(partition))] = int(offset)
        except ValueError:
            raise UserError(
                f"{name}, line {number}: a line is TOPIC,PARTITION,OFFSET, not {','.join(row)}"
            ) from None
    if not found:
        raise UserError(f"{name}: there is no line; a line is TOPIC,PARTITION,OFFSET")
    return found
