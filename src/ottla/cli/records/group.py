"""Records as a member of a consumer group reads them, which commits what has been printed."""

import sys
import time
from collections.abc import Iterator, Sequence
from fnmatch import translate
from re import compile as compile_pattern
from typing import TYPE_CHECKING, Any

from ottla.base.addresses import address_text
from ottla.base.errors import RefusalError, UserError
from ottla.base.partitions import TopicPartition
from ottla.cli.records.reading import Printer, ReadPlan, is_pattern
from ottla.cli.target import Target
from ottla.record.record import Record
from ottla.search.fields import Entry
from ottla.search.positions import Position, PositionKind

if TYPE_CHECKING:
    from ottla.client.consumer.consumer import Consumer

POLL_S = 0.2
COMMIT_S = 1.0
PATIENCE_S = 30.0
"""Seconds after which a member without partitions gives up, unless it follows."""

RESETS = {
    PositionKind.START: "earliest",
    PositionKind.END: "latest",
    PositionKind.STORED: "earliest",
}


def print_as_group(
    target: Target, group: str, plan: ReadPlan, printer: Printer, *, isolation: str
) -> None:
    """Prints what the group has not read yet, and commits its offsets; raises `UserError`."""
    from ottla.client.consumer.consumer import Consumer

    if plan.partitions or plan.until is not None:
        raise UserError(
            "--group reads its assigned partitions to the end: omit --partition and --until"
        )
    settings: dict[str, Any] = {
        **target.settings,
        "enable.auto.commit": False,
        "auto.offset.reset": _reset(plan.start),
        "isolation.level": isolation,
    }
    with Consumer(_place(target), group, settings=settings) as consumer:
        consumer.subscribe(_subscription(plan.topics))
        reader = _GroupReader(consumer, plan)
        try:
            printer.print_all(reader.entries(), reader.done)
        finally:
            # The group's next member reads again what could not be written.
            sys.stdout.flush()
            reader.commit()


class _GroupReader:
    """`entries` are read; what is `done` with them is committed."""

    def __init__(self, consumer: "Consumer", plan: ReadPlan) -> None:
        self._consumer = consumer
        self._plan = plan
        self._done: dict[TopicPartition, int] = {}
        self._commit_due_s = 0.0

    def entries(self) -> Iterator[Entry | None]:
        plan = self._plan
        until_s = time.monotonic() + PATIENCE_S
        while True:
            found = self._consumer.poll(POLL_S)
            if found is None or time.monotonic() >= self._commit_due_s:
                yield None  # Flush first, then commit.
                if found is None:
                    self._done = self._positions()
                self.commit()
            if found is not None:
                record = Record(
                    offset=found.offset,
                    timestamp_ms=found.timestamp,
                    timestamp_type=found.timestamp_type,
                    key=found.key,
                    value=found.value,
                    headers=found.headers,
                    leader_epoch=found.leader_epoch,
                )
                entry = Entry(found.topic, found.partition, record)
                if plan.filter is None or plan.filter(plan.fields, entry):
                    yield entry
                else:
                    self.done(entry)
            elif not plan.is_following and self._is_at_end(until_s):
                return

    def _is_at_end(self, until_s: float) -> bool:
        places = self._consumer.assignment()
        if places:
            return all(self._consumer.lag(one) == 0 for one in places)
        if time.monotonic() < until_s:
            return False
        raise RefusalError("the group's other members have all partitions; -f waits for one")

    def _positions(self) -> dict[TopicPartition, int]:
        """Everything that was returned is done, also markers of transactions at the end."""
        places = self._consumer.assignment()
        found = {place: self._consumer.position(place) for place in places}
        return {place: offset for place, offset in found.items() if offset is not None}

    def done(self, entry: Entry) -> None:
        self._done[TopicPartition(entry.topic, entry.partition)] = entry.record.offset + 1

    def commit(self) -> None:
        done, self._done = self._done, {}
        self._commit_due_s = time.monotonic() + COMMIT_S
        held = self._consumer.assignment()
        if offsets := {place: offset for place, offset in done.items() if place in held}:
            self._consumer.commit(offsets=offsets)


def _reset(start: Position) -> str:
    if start.kind not in RESETS:
        raise UserError(
            "--group continues at its committed offsets; -o beginning or end sets where it begins "
            "without them, and ottla groups reset moves it"
        )
    return RESETS[start.kind]


def _place(target: Target) -> str:
    target.check_directories()
    if addresses := target.broker_addresses():
        return ",".join(address_text(*one) for one in addresses)
    if len(target.directories) > 1:
        raise UserError("--group on several directories needs a broker; run ottla serve")
    return target.directories[0]


def _subscription(names: Sequence[str]) -> Any:
    if not names:
        raise UserError("name a topic, or a pattern such as 'orders-*' or '^orders-[0-9]+$'")
    if not any(is_pattern(one) for one in names):
        return list(names)
    return compile_pattern(
        "|".join(f"(?:{one})" if one.startswith("^") else translate(one) for one in names)
    )
