"""When records of a partition are delivered, and which before others, by their own headers.

A producer may say `ottla.deliver-at`, ms since the epoch as digits, before which a record waits,
and `ottla.priority`, an integer: of the records in the window those of the highest priority are
delivered first; without the header it is 0. Only groups whose setting
`ottla.share.scheduling.enable` says so look at these headers, once for each record that comes into
the window (`share.partition.max.record.locks`).
"""

import logging
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from ottla.coordinator.share.records_in_flight import DeliveryState, Offsets, Run
from ottla.record.batch import Batch
from ottla.record.record import Record, read_records

logger = logging.getLogger(__name__)

DELIVER_AT: Final = "ottla.deliver-at"
PRIORITY: Final = "ottla.priority"
MAX_TEXT: Final = 20
"""Of a number of 64 bits with its sign."""


class Wish(NamedTuple):
    """What a record's headers say."""

    deliver_at_ms: int = 0
    priority: int = 0


class Plan(NamedTuple):
    """Which available records are left for later, and when the next of them is due."""

    deferred: Sequence[Offsets]
    next_due_ms: int | None


class Schedule:
    """The wishes of the records of one partition up to `known_until`."""

    def __init__(self, name: str, start: int) -> None:
        self.known_until = start
        self._name = name
        self._wishes: dict[int, Wish] = {}
        self._has_warned = False

    def read(self, batch: Batch) -> int:
        """Takes the wishes of a batch's records; returns how many records it has. Raises
        `InvalidBatchError`.
        """
        count = 0
        if not batch.is_control:
            for record in read_records(batch):
                count += 1
                if record.headers and record.offset >= self.known_until:
                    self._take(record)
        self.known_until = max(self.known_until, batch.next_offset)
        return count

    def _take(self, record: Record) -> None:
        wish = Wish()
        for name, value in record.headers:
            if name == DELIVER_AT:
                wish = wish._replace(deliver_at_ms=self._number(record, name, value, 0))
            elif name == PRIORITY:
                wish = wish._replace(priority=self._number(record, name, value, 0))
        if wish != Wish():
            self._wishes[record.offset] = wish

    def _number(self, record: Record, name: str, value: bytes | None, otherwise: int) -> int:
        text = (value or b"").decode("latin-1").strip()
        try:
            if len(text) <= MAX_TEXT:
                return int(text)
        except ValueError:
            pass
        if not self._has_warned:
            self._has_warned = True
            logger.warning(
                "%s, offset %d: the header %s is no integer, and is ignored, as others that follow",
                self._name,
                record.offset,
                name,
            )
        return otherwise

    def forget_before(self, offset: int) -> None:
        if self._wishes and min(self._wishes) < offset:
            self._wishes = {one: wish for one, wish in self._wishes.items() if one >= offset}

    def plan(self, runs: Iterable[Run], now_ms: int) -> Plan:
        """What is to be left of the available records among runs, so that only those of the highest
        priority are delivered, and none before its time.
        """
        available = [
            (run.first, run.last)
            for run in runs
            if run.state == DeliveryState.AVAILABLE and not run.is_being_written
        ]
        offsets = sorted(self._wishes)
        wished = list(_within(offsets, available))
        late = [one for one in wished if self._wishes[one].deliver_at_ms > now_ms]
        due = [one for one in wished if self._wishes[one].deliver_at_ms <= now_ms]
        next_due_ms = min((self._wishes[one].deliver_at_ms for one in late), default=None)
        priorities = {self._wishes[one].priority for one in due}
        if sum(last - first + 1 for first, last in available) > len(wished):
            priorities.add(0)
        highest = max(priorities, default=0)
        chosen = {one for one in due if self._wishes[one].priority == highest}
        if highest == 0:
            deferred = [(one, one) for one in wished if one not in chosen]
        else:
            deferred = list(_without(available, sorted(chosen)))
        return Plan(deferred, next_due_ms)


def _within(offsets: Sequence[int], ranges: Iterable[Offsets]) -> Iterator[int]:
    """The offsets, in order, that are in one of the ranges."""
    for first, last in ranges:
        for number in range(bisect_left(offsets, first), len(offsets)):
            if offsets[number] > last:
                break
            yield offsets[number]


def _without(ranges: Iterable[Offsets], offsets: Sequence[int]) -> Iterator[Offsets]:
    """The ranges, in order, without some offsets."""
    for first, last in ranges:
        begin = first
        for offset in _within(offsets, [(first, last)]):
            if begin < offset:
                yield begin, offset - 1
            begin = offset + 1
        if begin <= last:
            yield begin, last
