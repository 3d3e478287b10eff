"""The bounds of a read as given by options, before they are resolved against a log.

Each bound is given as offsets (`startingOffsets`) or as times (`startingTimestamp` for all
partitions, `startingOffsetsByTimestamp` for each). A time overrides offsets, and a time for all
partitions overrides times for each, as in Spark's own Kafka source.
"""

import json
from collections.abc import Mapping
from enum import Enum

from ottla.base.errors import UserError
from ottla.base.partitions import TopicPartition
from ottla.base.values import dataclass

EARLIEST = -2
LATEST = -1

_ENDS = {"earliest": EARLIEST, "latest": LATEST}


class BoundKind(Enum):
    OFFSETS = "offsets"
    TIMES = "times"


class NoMatch(Enum):
    """The behaviour of a start by time in a partition without a record that late."""

    ERROR = "error"
    LATEST = "latest"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """A bound of the range, given by option `option`. Times are in milliseconds.

    Either `for_all` or `for_each` is set. Offsets may be `EARLIEST` or `LATEST`.
    """

    option: str
    kind: BoundKind = BoundKind.OFFSETS
    for_all: int | None = None
    for_each: Mapping[TopicPartition, int] | None = None

    def of(self, place: TopicPartition) -> int:
        """The offset or time for a partition, which must be in `for_each` if that is set."""
        if self.for_all is not None:
            return self.for_all
        assert self.for_each is not None
        return self.for_each[place]

    def has(self, offset: int) -> bool:
        """Whether the bound contains the offset, such as `LATEST`, for any partition."""
        if self.kind is not BoundKind.OFFSETS:
            return False
        return self.for_all == offset or offset in (self.for_each or {}).values()

    def moves_with_the_log(self, place: TopicPartition) -> bool:
        """Whether the bound depends on the log, rather than being a fixed offset."""
        return self.kind is BoundKind.TIMES or self.of(place) == EARLIEST


FROM_EARLIEST = Bound(option="startingOffsets", for_all=EARLIEST)
FROM_LATEST = Bound(option="startingOffsets", for_all=LATEST)
TO_LATEST = Bound(option="endingOffsets", for_all=LATEST)


def parse_bound(side: str, options: Mapping[str, str]) -> Bound | None:
    """Parses the bound of `side`, starting or ending; `None` if not given. Raises `UserError`."""
    for_all, for_each, offsets = f"{side}Timestamp", f"{side}OffsetsByTimestamp", f"{side}Offsets"
    if (text := options.get(for_all.lower())) is not None:
        return Bound(option=for_all, kind=BoundKind.TIMES, for_all=_parse_time(for_all, text))
    if (text := options.get(for_each.lower())) is not None:
        times = _parse_places(for_each, text, "JSON like {}", 0, 1_700_000_000_000)
        return Bound(option=for_each, kind=BoundKind.TIMES, for_each=times)
    text = options.get(offsets.lower())
    if text is None:
        return None
    word = text.strip().lower()
    if word in _ENDS:
        return Bound(option=offsets, for_all=_ENDS[word])
    wanted = "earliest, latest or JSON like {}"
    return Bound(option=offsets, for_each=_parse_places(offsets, text, wanted, EARLIEST, 23))


def parse_no_match(options: Mapping[str, str]) -> NoMatch:
    """Parses `startingOffsetsByTimestampStrategy`; raises `UserError`."""
    text = options.get("startingoffsetsbytimestampstrategy", NoMatch.ERROR.value)
    try:
        return NoMatch(text.strip().lower())
    except ValueError:
        raise UserError(
            f"option startingOffsetsByTimestampStrategy takes error or latest, not {text!r}"
        ) from None


def _parse_time(name: str, text: str) -> int:
    if not text.strip().isascii() or not text.strip().isdigit():
        raise UserError(f"option {name} takes milliseconds since 1970, not {text!r}")
    return int(text)


def _parse_places(
    name: str, text: str, wanted: str, least: int, example: int
) -> dict[TopicPartition, int]:
    """Parses JSON of topics, partitions and numbers, such as `{"orders": {"0": 23, "1": -1}}`."""
    try:
        found = {
            TopicPartition(topic, int(number)): value
            for topic, numbers in json.loads(text).items()
            for number, value in numbers.items()
        }
        if found and all(type(one) is int and one >= least for one in found.values()):
            return found
    except (ValueError, TypeError, AttributeError):
        pass
    shown = wanted.format(json.dumps({"orders": {"0": example}}))
    raise UserError(f"option {name} takes {shown}, not {text}")
