"""The hours for which a table is complete, having all records appended to the log until their end.

A load notes when it read the log's end offsets, and these offsets. All records appended before that
time are below the offsets; once loads have reached all of them, the hours that had ended by that
time are complete. An open transaction delays its hour until it ends. The time is that of appending,
by the loader's clock, because a producer may choose any timestamp.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime

from ottla.base.values import dataclass
from ottla.tables.entries import Action, LedgerEntry

HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class CompleteHour:
    """The hour that begins at `start_ms`; all its records are below `until_offsets`.

    >>> hour, = ottla.table.complete_hours(table)
    >>> hour.name, dict(hour.until_offsets)
    ('2026-01-01T00', {0: 2})
    """

    start_ms: int
    until_offsets: Mapping[int, int]
    commit_id: int
    """The commit that completed the hour."""

    @property
    def name(self) -> str:
        """`2026-11-21T13`, in UTC.

        >>> hour, = ottla.table.complete_hours(table)
        >>> hour.name
        '2026-01-01T00'
        """
        return hour_name(self.start_ms)


def hour_name(time_ms: int) -> str:
    """The name of the hour that contains a time."""
    return f"{datetime.fromtimestamp(time_ms / 1000, UTC):%Y-%m-%dT%H}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """The log's end offsets at one time."""

    at_ms: int
    ends: Mapping[int, int]

    def is_reached(self, loaded: Mapping[int, int]) -> bool:
        return all(loaded.get(number, 0) >= end for number, end in self.ends.items())


def complete_hours(entries: Iterable[LedgerEntry]) -> list[CompleteHour]:
    """The complete hours in order, from the last hour before the first load on; all earlier hours
    are complete too.
    """
    found: list[CompleteHour] = []
    loaded: dict[int, int] = {}
    waiting: list[_Asked] = []
    for entry in entries:
        if entry.action is not Action.LOAD:
            continue
        loaded |= {one.partition: one.until_offset for one in entry.partitions}
        waiting += _asked(entry)
        reached = [one for one in waiting if one.is_reached(loaded)]
        if reached:
            newest = max(reached, key=lambda one: one.at_ms)
            waiting = [one for one in waiting if one.at_ms > newest.at_ms]
            last_ms = found[-1].start_ms if found else None
            found += _completed(newest, last_ms, entry.commit_id)
    return found


def _asked(entry: LedgerEntry) -> Iterator[_Asked]:
    ends = {
        one.partition: one.log_end_offset
        for one in entry.partitions
        if one.log_end_offset is not None
    }
    if entry.asked_ms is not None and len(ends) == len(entry.partitions):
        yield _Asked(at_ms=entry.asked_ms, ends=ends)


def _completed(asked: _Asked, last_ms: int | None, commit_id: int) -> Iterator[CompleteHour]:
    """The hours between the last complete one and the time of the end offsets."""
    end_ms = asked.at_ms - asked.at_ms % HOUR_MS
    first_ms = end_ms - HOUR_MS if last_ms is None else last_ms + HOUR_MS
    for start_ms in range(first_ms, end_ms, HOUR_MS):
        yield CompleteHour(start_ms=start_ms, until_offsets=asked.ends, commit_id=commit_id)


def begins_a_new_hour(before_ms: int | None, asked_ms: int) -> bool:
    """Whether an hour has ended since the last load; false before the first load."""
    return before_ms is not None and asked_ms // HOUR_MS > before_ms // HOUR_MS
