"""Start and end positions: `beginning`, `end`, an offset, `-N` from the end, `@TIME`."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from enum import Enum

from ottla.base.errors import UserError
from ottla.base.partitions import OffsetRange, TopicPartition
from ottla.base.texts import UNITS_MS, age_ms, whole_number
from ottla.base.values import dataclass

_WORDS = {
    "beginning": "START", "earliest": "START", "start": "START", "oldest": "START",
    "end": "END", "latest": "END", "newest": "END", "stored": "STORED",
}  # fmt: skip
_MAX_SECONDS_DIGITS = 10
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

WANTED = "beginning, end, an offset such as 42, -10 for the last ten, or a time such as @1h, @today"


class PositionKind(Enum):
    """The meaning of a position's number."""

    START = "start"
    END = "end"
    STORED = "stored"
    OFFSET = "offset"
    TAIL = "tail"
    TIME = "time"


@dataclass(frozen=True, slots=True)
class Position:
    """A place in every partition; `number` is an offset, a count from the end, or milliseconds."""

    kind: PositionKind
    number: int = 0


FROM_START = Position(PositionKind.START)


def parse_position(option: str, text: str, now_ms: int) -> Position:
    """Raises `UserError`."""
    word = text.strip()
    if word.lower() in _WORDS:
        return Position(PositionKind[_WORDS[word.lower()]])
    if word.startswith("@"):
        return Position(PositionKind.TIME, parse_time(word[1:], now_ms))
    digits = word.removeprefix("-")
    number = whole_number(digits)
    if number is None:
        raise UserError(f"{option} {text}: name {WANTED}")
    kind = PositionKind.TAIL if word.startswith("-") else PositionKind.OFFSET
    return Position(kind, number)


def parse_time(text: str, now_ms: int) -> int:
    """Milliseconds since 1970 of a date, a time, a number or a duration ago; raises `UserError`.

    Dates and times without a zone are UTC. A number of up to ten digits is seconds.
    """
    time_ms = _time_ms(text, now_ms)
    if abs(time_ms) >= 1 << 63:
        raise _no_time(text)
    return time_ms


def _no_time(text: str) -> UserError:
    return UserError(
        f"{text.strip()!r} is not a time; write 2026-01-31, 2026-01-31T12:00:00Z, 15m, today "
        f"or milliseconds since 1970"
    )


def _time_ms(text: str, now_ms: int) -> int:
    word = text.strip()
    if (number := whole_number(word)) is not None:
        return number * (1000 if len(word) <= _MAX_SECONDS_DIGITS else 1)
    if (age := age_ms(word.removesuffix(" ago"))) is not None:
        return now_ms - round(age)
    day_ms = UNITS_MS["d"]
    midnight_ms = now_ms - now_ms % day_ms
    known = {"now": now_ms, "today": midnight_ms, "yesterday": midnight_ms - day_ms}
    if word in known:
        return known[word]
    try:
        at = datetime.fromisoformat(word)
    except ValueError:
        raise _no_time(text) from None
    zoned = at if at.tzinfo is not None else at.replace(tzinfo=UTC)
    return (zoned - _EPOCH) // timedelta(milliseconds=1)


def resolve(
    position: Position, there: OffsetRange, offset_at_time: int | None, *, is_start: bool
) -> int:
    """Returns the offset of a position in a partition; its end for a time after the last record.

    A start before the partition's first offset is moved there; an end is returned unchanged.
    """
    match position.kind:
        case PositionKind.START:
            offset = there.from_offset
        case PositionKind.END | PositionKind.STORED:
            offset = there.until_offset
        case PositionKind.OFFSET:
            offset = position.number
        case PositionKind.TAIL:
            offset = max(there.from_offset, there.until_offset - position.number)
        case PositionKind.TIME:
            offset = there.until_offset if offset_at_time is None else offset_at_time
    return max(offset, there.from_offset) if is_start else offset


def times_of(
    position: Position, places: Mapping[TopicPartition, object]
) -> dict[TopicPartition, int]:
    """The times that a log must be asked for to resolve a position."""
    if position.kind is not PositionKind.TIME:
        return {}
    return dict.fromkeys(places, position.number)
