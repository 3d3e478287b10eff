"""What `consume` and `records` share: which records to read, in which order, and how to print
them.
"""

import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

import click

from ottla.base.errors import UnknownNameError, UserError
from ottla.base.partitions import OffsetRange, TopicPartition
from ottla.base.patterns import lazy_pattern
from ottla.base.values import dataclass
from ottla.cli.late_line import LateLine, is_file
from ottla.cli.output import quiet_option
from ottla.cli.records.templates import Piece, Style, parse_template, unescaped
from ottla.cli.settings_files import REGISTRY_URL, registry_login, registry_options
from ottla.cli.terminal import counted, with_options
from ottla.cli.visible import own
from ottla.search.encodings import ENCODINGS, Encoding, encoding_of, field_reader
from ottla.search.fields import Entry, FieldReader
from ottla.search.filters import Filter, all_of, parse_filter
from ottla.search.patterns import Match, Pattern, compiled
from ottla.search.positions import (
    FROM_START,
    Position,
    PositionKind,
    parse_position,
    resolve,
    times_of,
)
from ottla.search.sources import RecordSource

if TYPE_CHECKING:
    from ottla.schema_registry.registry import SchemaRegistry

LOOK_EVERY = 256
"""How many records are found between two looks at the clock."""

IDLE_S = 0.1
"""How long `--follow` waits before it looks again."""

MATCH, PLAIN = b"\x1b[01;31m", b"\x1b[m"
"""The escape sequences that grep uses."""

_TOPIC_NAME = lazy_pattern(r"[A-Za-z0-9._-]+")


def reading_options(*, default_format: str) -> Callable[[Any], Any]:
    """All options of a command that prints records."""
    return with_options(
        click.option(
            "--partition", "-p", "partitions", multiple=True, type=int, help="Partition to read."
        ),
        click.option(
            "--offset",
            "--from",
            "-o",
            "offset",
            metavar="POSITION",
            help="Start: beginning (default), end, an offset, -10 for the last ten of each "
            "partition, or a time: @2026-01-31T12:00 (UTC), @15m ago, @today, @MILLISECONDS.",
        ),
        click.option("--until", metavar="POSITION", help="End of the range, exclusive."),
        click.option(
            "--number",
            "-n",
            "-c",
            "count",
            type=click.IntRange(1),
            help="Maximum number of records to print.",
        ),
        click.option("--follow", "-f", "is_following", is_flag=True, help="Wait for new records."),
        click.option(
            "--exit", "-e", "is_ending", is_flag=True, help="Exit at the end, the default."
        ),
        click.option(
            "--where",
            "-w",
            "tests",
            multiple=True,
            metavar="TEST",
            help="Records to print: key = a, value ~ 'err|warn', header.h, .total > 5, "
            "key is null, with and, or, not. Repeatable: all must hold.",
        ),
        click.option(
            "--grep",
            "-g",
            metavar="REGEX",
            help="Print only what matches an expression of RE2, and highlight it.",
        ),
        *format_options(default_format),
        click.option(
            "--key-separator", "-K", metavar="TEXT", help="Print keys too, before this separator."
        ),
        click.option(
            "--null", "-Z", is_flag=True, help="Print NULL for a null, instead of nothing."
        ),
        encoding_option("--value", "value_as", "Encoding of values."),
        encoding_option("--key", "key_as", "Encoding of keys."),
        *schema_options,
        *registry_options("which values name by id (and keys, with --key registry)"),
        quiet_option(),
    )


def format_options(default_format: str) -> tuple[Callable[[Any], Any], ...]:
    """The options that say in which form a record is printed."""
    return (
        click.option(
            "--format",
            "-F",
            "template",
            default=default_format,
            show_default=True,
            metavar="FORMAT",
            help="value, line, json, kcat's letters such as '%k: %s\\n', or fields such as "
            "'{offset} {key} {.total}'.",
        ),
        click.option("--json", "-J", "as_json", is_flag=True, help="Print JSON lines."),
    )


def encoding_option(name: str, parameter: str, words: str) -> Callable[[Any], Any]:
    return click.option(name, parameter, type=click.Choice(ENCODINGS), help=words)


_SCHEMA = click.Path(dir_okay=False)
schema_options = (
    click.option(
        "--schema", metavar="FILE", type=_SCHEMA, help="Schema of values: Avro, or a .proto file."
    ),
    click.option("--message", metavar="NAME", help="Message type of Protobuf values."),
    click.option(
        "--key-schema", metavar="FILE", type=_SCHEMA, help="Schema of keys: Avro, or a .proto file."
    ),
    click.option("--key-message", metavar="NAME", help="Message type of Protobuf keys."),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadPlan:
    """Which records of which topics to read; without `until`, to the end at the time of the
    start.
    """

    topics: Sequence[str]
    partitions: Sequence[int] = ()
    start: Position = FROM_START
    until: Position | None = None
    is_following: bool = False
    filter: Filter | None = None
    fields: FieldReader


def parse_plan(
    topics: Sequence[str], given: dict[str, Any], settings: Mapping[str, str]
) -> tuple[ReadPlan, "Printer"]:
    """Converts the options of a command to values; `settings` are those of the target's registry.

    Raises `UserError`.
    """
    now_ms = round(time.time() * 1000)
    style = _style(given, settings)
    if given["is_following"] and given["is_ending"]:
        raise UserError("--follow and --exit exclude each other")
    until = given["until"]
    plan = ReadPlan(
        topics=topics,
        partitions=given["partitions"],
        start=_position("--offset", given["offset"], now_ms) or FROM_START,
        until=_position("--until", until, now_ms),
        is_following=given["is_following"],
        filter=all_of([parse_filter(one, now_ms) for one in given["tests"]]),
        fields=field_reader(style.key, style.value),
    )
    piece = _piece(given, style)
    return plan, Printer(piece, given["grep"], given["count"], is_quiet=given["is_quiet"])


def parse_printer(given: dict[str, Any]) -> "Printer":
    """The printer of a command with `format_options` alone; raises `UserError`."""
    plain = {side: encoding_of(side, None, None) for side in ("key", "value")}
    style = Style(key=plain["key"], value=plain["value"], null=b"", separator=None)
    return Printer(_piece(given, style), count=given["count"], is_quiet=given["is_quiet"])


def _style(given: dict[str, Any], settings: Mapping[str, str]) -> Style:
    registry = _registry(given, settings)
    return Style(
        key=given_encoding("key", given, registry),
        value=given_encoding("value", given, registry),
        null=b"NULL" if given["null"] else b"",
        separator=_separator(given["key_separator"]),
    )


def _piece(given: dict[str, Any], style: Style) -> Piece:
    return parse_template("json" if given["as_json"] else given["template"], style)


def given_encoding(
    side: str, given: dict[str, Any], registry: "SchemaRegistry | None" = None
) -> Encoding:
    """The encoding that a command's options name for keys or values; raises `UserError`."""
    prefix = "key_" if side == "key" else ""
    return encoding_of(
        side,
        given[f"{side}_as"],
        given[f"{prefix}schema"],
        registry,
        given[f"{prefix}message"],
    )


def _registry(given: dict[str, Any], settings: Mapping[str, str]) -> "SchemaRegistry | None":
    """The registry of the options; or that of the target's settings, if values or keys are asked
    for by it: of a context with a registry not every topic's values are in it.
    """
    address = given["registry"]
    if address is None and "registry" in (given["value_as"], given["key_as"]):
        address = settings.get(REGISTRY_URL)
    if address is None:
        return None
    from ottla.schema_registry.opening import open_registry

    return open_registry(address, registry_login(given["registry_config"], settings, address))


def _separator(text: str | None) -> bytes | None:
    return None if text is None else unescaped(text.encode("utf-8", "surrogateescape"))


def _position(option: str, text: str | None, now_ms: int) -> Position | None:
    if text is None:
        return None
    return parse_position(option, text, now_ms)


def chosen_places(source: RecordSource, plan: ReadPlan) -> list[TopicPartition]:
    """Returns the partitions to read, in order; raises `UnknownNameError` for missing ones."""
    if not plan.topics:
        raise UserError("name a topic, or a pattern such as 'orders-*' or '^orders-[0-9]+$'")
    names = [name for one in plan.topics for name in _matching(source, one)]
    return [
        TopicPartition(name, number)
        for name in dict.fromkeys(names)
        for number in _chosen_partitions(name, source.partitions(name), plan.partitions)
    ]


def is_pattern(name: str) -> bool:
    """Whether a name is a pattern of names: a shell pattern or a regular expression."""
    return _TOPIC_NAME.fullmatch(name) is None


def _matching(source: RecordSource, name: str) -> list[str]:
    if not is_pattern(name):
        if not source.partitions(name):
            raise UnknownNameError("topic", name, source.topics())
        return [name]
    if "%" in name or name.startswith("{"):
        raise UserError(f"{name} is not a topic; a format is given with --format (-F), not with -f")
    known = source.topics()
    found = [one for one in known if not one.startswith("__") and _fits(name, one)]
    if not found:
        raise UnknownNameError("topic like", name, known)
    return found


def _fits(pattern: str, name: str) -> bool:
    """A regular expression begins with `^`, as in kcat; anything else is a shell pattern."""
    if not pattern.startswith("^"):
        return fnmatchcase(name, pattern)
    try:
        return re.search(pattern, name) is not None
    except re.error as error:
        raise UserError(f"{pattern} is not a valid regular expression: {error}") from error


def _chosen_partitions(topic: str, there: list[int], wanted: Sequence[int]) -> Sequence[int]:
    missing = sorted(set(wanted).difference(there))
    if missing:
        has = ", ".join(map(str, there))
        raise UserError(f"topic {topic} has no partition {missing[0]}; it has {has}")
    return wanted or there


def entries(source: RecordSource, plan: ReadPlan) -> Iterator[Entry | None]:
    """Yields the records that pass the filter, partition by partition, and then as they arrive.

    `None` marks that there are no more for now.
    """
    for entry in _read(source, plan):
        if entry is None or plan.filter is None or plan.filter(plan.fields, entry):
            yield entry


def _read(source: RecordSource, plan: ReadPlan) -> Iterator[Entry | None]:
    if PositionKind.STORED in (plan.start.kind, plan.until and plan.until.kind):
        raise UserError("-o stored refers to a group's offsets; name it with --group")
    places = chosen_places(source, plan)
    there = source.bounds(places)
    following = _resolved(source, plan.start, there, is_start=True)
    ends = None if plan.until is None else _resolved(source, plan.until, there, is_start=False)
    while True:
        for place in places:
            until = there[place].until_offset
            if ends is not None:
                until = min(until, ends[place])
            wanted = OffsetRange(from_offset=following[place], until_offset=until)
            if not wanted.is_empty:
                for record in source.records(place, wanted):
                    yield Entry(*place, record)
                following[place] = until
        is_read = ends is not None and all(following[one] >= ends[one] for one in places)
        if not plan.is_following or is_read:
            return
        yield None
        time.sleep(IDLE_S)
        there = source.bounds(places)


def _resolved(
    source: RecordSource,
    position: Position,
    there: dict[TopicPartition, OffsetRange],
    *,
    is_start: bool,
) -> dict[TopicPartition, int]:
    times = times_of(position, there)
    at_time = source.offsets_at(times) if times else {}
    return {
        place: resolve(position, there[place], at_time.get(place), is_start=is_start)
        for place in there
    }


class Printer:
    """Writes records to standard output as bytes; on a terminal, matches of `--grep` are red."""

    def __init__(
        self,
        piece: Piece,
        grep: str | None = None,
        count: int | None = None,
        *,
        is_quiet: bool = False,
    ) -> None:
        """Prints at most `count` records; `is_quiet` if progress is not shown."""
        self._piece = piece
        self._is_quiet = is_quiet
        self._grep = None if grep is None else _pattern(grep)
        self._count = count

    def print_all(
        self, found: Iterator[Entry | None], on_done: Callable[[Entry], None] = lambda _: None
    ) -> None:
        """Prints to the end, or until standard output is closed: `BrokenPipeError`.

        `on_done` is called with each record that was printed or left out by `--grep`.
        """
        # On a terminal the records themselves are the progress, as is what reads them from a pipe.
        is_quiet = self._is_quiet or not is_file(sys.stdout)
        with LateLine("reading", is_quiet=is_quiet) as line:
            self._print_each(found if is_quiet else _counted(found, line), on_done)

    def _print_each(self, found: Iterator[Entry | None], on_done: Callable[[Entry], None]) -> None:
        out = sys.stdout.buffer
        grep, left = self._grep, self._count
        is_red = grep is not None and _has_colour()
        for entry in found:
            if entry is None:
                out.flush()
                continue
            data = self._piece(entry)
            if grep is not None:
                if grep.search(data) is None:
                    on_done(entry)
                    continue
                if is_red:
                    data = grep.sub(_red, data)
            out.write(data)
            on_done(entry)
            if left is not None:
                left -= 1
                if not left:
                    break
        out.flush()


def _counted(found: Iterator[Entry | None], line: LateLine) -> Iterator[Entry | None]:
    for count, entry in enumerate(found):
        if count % LOOK_EVERY == 0:
            line.say(f"found {counted(f'{count:,}', 'record')}")
        yield entry


def _pattern(text: str) -> Pattern:
    try:
        return compiled(text, is_by_line=True)
    except UserError as error:
        raise UserError(f"--grep {error}") from error


def _red(found: Match) -> bytes:
    return own(MATCH) + found[0] + own(PLAIN) if found[0] else b""


def _has_colour() -> bool:
    import os

    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")
