"""Removes partitions and ends of ranges that Spark's filters exclude.

Spark applies each filter again, so pruning too little only costs time. Offsets are cut at both
ends, times only at the start, by the time index: a later record may have an earlier timestamp, so
no offset exists after which all timestamps are too late.
"""

import operator
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from ottla.base.errors import UserError
from ottla.base.partitions import OffsetRange, TopicPartition
from ottla.base.values import dataclass
from ottla.sources.log_source import LogSource

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_EQUALS = ("EqualTo", "EqualNullSafe")
_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "EqualTo": operator.eq,
    "EqualNullSafe": operator.eq,
    "In": lambda value, values: value in values,
    "GreaterThan": operator.gt,
    "GreaterThanOrEqual": operator.ge,
    "LessThan": operator.lt,
    "LessThanOrEqual": operator.le,
    "StringStartsWith": lambda value, start: str(value).startswith(start),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """A comparison of a column with a value; `name` is the class of Spark's filter; `In` has
    several.
    """

    name: str
    column: str
    value: Any
    is_negated: bool = False

    def holds(self, value: Any) -> bool:
        """Whether a value of the column satisfies the condition; true if unknown."""
        try:
            return self._compared(value) is not self.is_negated
        except TypeError:
            return True

    def _compared(self, value: Any) -> bool:
        compare = _COMPARISONS.get(self.name)
        return not self.is_negated if compare is None else bool(compare(value, self.value))


def read_filters(filters: Iterable[Any]) -> tuple[Condition, ...]:
    """The conditions on single columns in Spark's filters (`pyspark.sql.datasource.Filter`)."""
    found = []
    for one in filters:
        is_negated = type(one).__name__ == "Not"
        inner = one.child if is_negated else one
        if hasattr(inner, "value") and len(inner.attribute) == 1:
            found.append(
                Condition(
                    name=type(inner).__name__,
                    column=inner.attribute[0],
                    value=inner.value,
                    is_negated=is_negated,
                )
            )
    return tuple(found)


def prune(
    ranges: Mapping[TopicPartition, OffsetRange],
    conditions: Iterable[Condition],
    log: LogSource,
) -> dict[TopicPartition, OffsetRange]:
    """The ranges without parts that the conditions exclude; empty ranges are left out."""
    wanted = tuple(conditions)
    pruned = {
        place: _cut_offsets(one, wanted) for place, one in ranges.items() if _passes(place, wanted)
    }
    least_ms = _least_time_ms(wanted)
    if least_ms is not None:
        pruned = _cut_times(pruned, least_ms, log)
    return {place: one for place, one in pruned.items() if one.from_offset < one.until_offset}


def _passes(place: TopicPartition, conditions: Iterable[Condition]) -> bool:
    values = {"topic": place.topic, "partition": place.partition}
    return all(one.holds(values[one.column]) for one in conditions if one.column in values)


def _cut_offsets(wanted: OffsetRange, conditions: Iterable[Condition]) -> OffsetRange:
    from_offset, until_offset = wanted.from_offset, wanted.until_offset
    for one in conditions:
        if one.column == "offset" and not one.is_negated:
            least, last = _bounds(one)
            from_offset = max(from_offset, from_offset if least is None else least)
            until_offset = min(until_offset, until_offset if last is None else last + 1)
    return OffsetRange(from_offset=from_offset, until_offset=max(from_offset, until_offset))


def _bounds(condition: Condition) -> tuple[Any, Any]:
    """The least and greatest whole numbers that satisfy the condition."""
    match condition.name:
        case "EqualTo" | "EqualNullSafe":
            return condition.value, condition.value
        case "In" if condition.value:
            return min(condition.value), max(condition.value)
        case "GreaterThan":
            return condition.value + 1, None
        case "GreaterThanOrEqual":
            return condition.value, None
        case "LessThan":
            return None, condition.value - 1
        case "LessThanOrEqual":
            return None, condition.value
        case _:
            return None, None


def _least_time_ms(conditions: Iterable[Condition]) -> int | None:
    """The least timestamp that may pass, in ms; rounded down, as Spark's times are finer."""
    least = [
        min(one.value) if one.name == "In" else one.value
        for one in conditions
        if one.column == "timestamp"
        and not one.is_negated
        and (one.name in (*_EQUALS, "GreaterThan", "GreaterThanOrEqual") or _is_full_in(one))
    ]
    aware = [one for one in least if isinstance(one, datetime) and one.tzinfo is not None]
    return (max(aware) - _EPOCH) // _MILLISECOND if aware else None


def _is_full_in(condition: Condition) -> bool:
    return condition.name == "In" and bool(condition.value)


def _cut_times(
    ranges: Mapping[TopicPartition, OffsetRange], least_ms: int, log: LogSource
) -> dict[TopicPartition, OffsetRange]:
    if least_ms <= 0:
        return dict(ranges)
    try:
        found = log.offsets_for_times(dict.fromkeys(ranges, least_ms))
    except UserError:
        # A log in message format v0 has no timestamps.
        return dict(ranges)
    cut = {}
    for place, one in ranges.items():
        offset = found[place]
        begin = one.until_offset if offset is None else max(one.from_offset, offset)
        cut[place] = OffsetRange(
            from_offset=min(begin, one.until_offset), until_offset=one.until_offset
        )
    return cut
