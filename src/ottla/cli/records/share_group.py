"""`ottla queue consume`: records as a member of a share group, which says what became of each."""

import os
import subprocess
import sys
import time
from collections import Counter, deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from ottla.base.errors import RefusalError
from ottla.base.values import dataclass
from ottla.cli.completion.names import complete_groups, complete_topics
from ottla.cli.output import quiet_option
from ottla.cli.records.reading import Printer, format_options, parse_printer
from ottla.cli.target import Target, TargetCommand, target_argument
from ottla.cli.terminal import counted, with_options
from ottla.record.record import Record
from ottla.search.fields import Entry

if TYPE_CHECKING:
    from ottla.client.sharing.records import ShareRecord
    from ottla.client.sharing.share_consumer import ShareConsumer

AT_ONCE = 500
POLL_S = 0.5
IDLE_S = 2.0
"""Without --follow it ends once no record has come for this long."""

PATIENCE_S = 30.0
"""Seconds after which a member without partitions gives up, unless it follows."""

RENEW_S = 5.0
"""A third of the shortest time that a group may lock records for."""

DATA_ERROR = 65
"""EX_DATAERR of sysexits.h: the input was wrong, and will be at the next try."""

MEANINGS = {0: "accept", DATA_ERROR: "reject"}
WORDS = {"accept": "accepted", "release": "released", "reject": "rejected"}


@click.command(
    "consume",
    cls=TargetCommand,
    examples=(
        "ottla queue consume localhost:9092 workers orders -n 1 --from beginning",
        "ottla queue consume localhost:9092 workers orders --from beginning --run 'grep total' "
        "--follow",
    ),
)
@target_argument()
@click.argument("group", metavar="GROUP", shell_complete=complete_groups)
@click.argument(
    "topics", metavar="TOPIC...", nargs=-1, required=True, shell_complete=complete_topics
)
@click.option(
    "--run",
    "command",
    metavar="COMMAND",
    help="Run this for each record, with the value as its input: exit code 0 accepts the record, "
    "65 rejects it, any other releases it.",
)
@click.option(
    "--say",
    type=click.Choice(tuple(WORDS)),
    default="accept",
    show_default=True,
    help="What to say of printed records.",
)
@click.option(
    "--from",
    "start",
    type=click.Choice(["beginning", "end"]),
    help="Where a new group begins: sets its share.auto.offset.reset.",
)
@click.option(
    "--number", "-n", "-c", "count", type=click.IntRange(1), help="Maximum number of records."
)
@click.option("--follow", "-f", "is_following", is_flag=True, help="Wait for new records.")
@with_options(*format_options("value"), quiet_option())
def consume_command(
    target: Target, group: str, topics: tuple[str, ...], start: str | None, **given: Any
) -> None:
    """Take records as a member of a share group, and say what became of each.

    Without --run each is printed, and then accepted. A command has OTTLA_TOPIC, _PARTITION,
    _OFFSET, _KEY and _DELIVERY_COUNT in its environment; its record stays locked meanwhile.
    """
    from ottla.client.sharing.share_consumer import ShareConsumer

    printer = parse_printer(given)
    with target.for_clients() as place:
        if start is not None:
            _set_start(target, place, group, start)
        settings: dict[str, Any] = {
            **target.settings,
            "share.acknowledgement.mode": "explicit",
            **_limits(given["command"] is not None, given["count"]),
        }
        with ShareConsumer(place, group, settings=settings) as consumer:
            consumer.subscribe(topics)
            work = _Work(consumer, given["count"], given["is_following"])
            try:
                if given["command"] is None:
                    work.print_all(printer, given["say"])
                else:
                    work.run_all(given["command"])
                consumer.commit()
            finally:
                if not given["is_quiet"]:
                    click.echo(work.summary(), err=True)


def _set_start(target: Target, place: Any, group: str, start: str) -> None:
    from ottla.base.resource_kinds import ResourceKind
    from ottla.client.administration.admin import Admin

    reset = "earliest" if start == "beginning" else "latest"
    with Admin(place, target.settings) as admin:
        admin.alter_configs(ResourceKind.GROUP, group, {"share.auto.offset.reset": reset})


def _limits(is_running: bool, count: int | None) -> dict[str, Any]:
    """Locks no more than it will work on: others can have the rest."""
    if not is_running and count is None:
        return {}
    most = 1 if is_running else min(count or AT_ONCE, AT_ONCE)
    return {"max.poll.records": most, "share.acquire.mode": "record_limit"}


@dataclass(slots=True)
class _Work:
    """`said` counts the words."""

    consumer: "ShareConsumer"
    count: int | None
    is_following: bool
    said: "Counter[str] | None" = None

    def summary(self) -> str:
        said = self.said or Counter()
        parts = [f"{said[one]:,} {WORDS[one]}" for one in WORDS if said[one]]
        return (
            f"{counted(f'{said.total():,}', 'record')}: {', '.join(parts)}"
            if parts
            else ("no records")
        )

    def _say(self, word: str, record: "ShareRecord") -> None:
        getattr(self.consumer, word)(record)
        if self.said is None:
            self.said = Counter()
        self.said[word] += 1

    def _batches(self) -> "Iterator[list[ShareRecord]]":
        """Lists of records, empty ones where none came for a while, until it is time to end."""
        begun_s = idle_s = time.monotonic()
        left = self.count
        while left is None or left > 0:
            found = self.consumer.poll_many(min(left or AT_ONCE, AT_ONCE), timeout=POLL_S)
            yield found
            now_s = time.monotonic()
            if found or not self.consumer.assignment():
                idle_s = now_s
            if left is not None:
                left -= len(found)
            if self.is_following:
                continue
            if now_s - idle_s >= IDLE_S:
                return
            if not self.consumer.assignment() and now_s - begun_s >= PATIENCE_S:
                raise RefusalError(
                    "the group has given this member no partitions; --follow waits for some"
                )

    def print_all(self, printer: Printer, word: str) -> None:
        given: deque[ShareRecord] = deque()
        done: list[ShareRecord] = []

        def entries() -> Iterator[Entry | None]:
            for batch in self._batches():
                for one in batch:
                    given.append(one)
                    yield _entry(one)
                yield None  # What is said of records is said once they are written.
                say()

        def say() -> None:
            for one in done:
                self._say(word, one)
            done.clear()

        printer.print_all(entries(), lambda _: done.append(given.popleft()))
        sys.stdout.flush()
        say()

    def run_all(self, command: str) -> None:
        for batch in self._batches():
            for one in batch:
                code = self._run(command, one)
                self._say(MEANINGS.get(code, "release"), one)

    def _run(self, command: str, record: "ShareRecord") -> int:
        """The exit code of the command for a record, whose lock is renewed meanwhile."""
        process = subprocess.Popen(
            command, shell=True, stdin=subprocess.PIPE, env=os.environ | _environment(record)
        )
        value: bytes | None = record.value or b""
        while True:
            try:
                process.communicate(value, timeout=RENEW_S)
                return process.returncode
            except subprocess.TimeoutExpired:
                value = None  # It has been given already.
                self.consumer.renew(record)


def _environment(record: "ShareRecord") -> dict[str, str]:
    key = b"" if record.key is None else record.key
    return {
        "OTTLA_TOPIC": record.topic,
        "OTTLA_PARTITION": str(record.partition),
        "OTTLA_OFFSET": str(record.offset),
        # A variable of the environment ends at a null byte.
        "OTTLA_KEY": os.fsdecode(key.partition(b"\0")[0]),
        "OTTLA_DELIVERY_COUNT": str(record.delivery_count),
    }


def _entry(found: "ShareRecord") -> Entry:
    record = Record(
        offset=found.offset,
        timestamp_ms=found.timestamp,
        timestamp_type=found.timestamp_type,
        key=found.key,
        value=found.value,
        headers=found.headers,
        leader_epoch=found.leader_epoch,
    )
    return Entry(found.topic, found.partition, record)
