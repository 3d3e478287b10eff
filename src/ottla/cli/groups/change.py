"""`ottla groups reset`, `commit` and `delete`: set where groups continue, and delete them."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ottla.base.clock import SystemClock
from ottla.base.errors import UserError
from ottla.base.partitions import TopicPartition
from ottla.base.texts import parse_places
from ottla.cli.completion.names import complete_groups, complete_topics
from ottla.cli.groups.known import KnownGroups
from ottla.cli.output import Output, output_options
from ottla.cli.tables import print_rows
from ottla.cli.target import Target, TargetCommand, target_argument
from ottla.cli.terminal import confirm, counted, print_json, yes_option
from ottla.coordinator.requests import SHARE

if TYPE_CHECKING:
    from ottla.client.administration.admin import Admin
    from ottla.diagnosis.offset_reset import PlannedOffset, Reset


@click.command(
    "reset",
    cls=TargetCommand,
    examples=(
        "ottla groups reset localhost:9092 billing --to earliest --yes",
        "ottla groups reset localhost:9092 billing orders:0,1 --to @2026-01-31T12:00",
        "ottla groups reset localhost:9092 billing --to 2h --csv > plan.csv",
    ),
)
@target_argument()
@click.argument("group", metavar="GROUP", shell_complete=complete_groups)
@click.argument(
    "topics", metavar="[TOPIC[:PARTITION,...]]...", nargs=-1, shell_complete=complete_topics
)
@click.option(
    "--to",
    "place",
    metavar="PLACE",
    help="beginning, end, current, an offset, @TIME such as @2026-01-31T12:00, or an age: 2h.",
)
@click.option(
    "--shift",
    type=int,
    metavar="N",
    help="Number of records to skip, or with a minus to go back: -100.",
)
@click.option(
    "--from-csv",
    "csv_path",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Offsets from lines of TOPIC,PARTITION,OFFSET.",
)
@click.option("--yes", "-y", "--execute", "is_executed", is_flag=True, help="Commit the offsets.")
@click.option("--csv", "as_csv", is_flag=True, help="Print lines of TOPIC,PARTITION,OFFSET.")
@output_options()
def reset_command(
    target: Target,
    group: str,
    topics: tuple[str, ...],
    csv_path: Path | None,
    is_executed: bool,
    **options: Any,
) -> None:
    """Set where GROUP continues to read, in all partitions with committed offsets or in those
    named.

    Prints what would change, and changes it only with --yes. The group must have no
    members. An offset that the log does not have is moved to the nearest end of the log.
    A share group then delivers all records from there on, also those it has finished.
    """
    from ottla.client.administration.group_resets import (
        begin_at,
        begins_of,
        check_nobody_reads,
        places_to_reset,
        planned_reset,
    )

    reset = _reset(options.pop("place"), options.pop("shift"), csv_path)
    with target.admin() as admin:
        known = KnownGroups(admin)
        if not topics and csv_path is None:
            known.check_has(group)
        committed = begins_of(admin, group, known.kind_of(group)) if group in known.names else {}
        if csv_path is not None:
            planned = _planned_by_file(admin, csv_path, committed)
        else:
            assert reset is not None
            planned = planned_reset(
                admin, reset, places_to_reset(admin, group, topics, committed), committed
            )
        if is_executed:
            check_nobody_reads(admin, group, known.names)
            offsets = {one.place: one.after for one in planned}
            begin_at(admin, group, known.kind_of(group), offsets)
    _show(group, planned, is_executed=is_executed, **options)


@click.command(
    "commit",
    cls=TargetCommand,
    examples=("ottla groups commit localhost:9092 billing orders:0=1500 orders:1=1320",),
)
@target_argument()
@click.argument("group", metavar="GROUP", shell_complete=complete_groups)
@click.argument("offsets", metavar="TOPIC:PARTITION=OFFSET...", nargs=-1, required=True)
@click.option("--share", "is_share", is_flag=True, help="A missing GROUP becomes a share group.")
@output_options()
def commit_command(
    target: Target, group: str, offsets: tuple[str, ...], output: Output, *, is_share: bool
) -> None:
    """Commit offsets for GROUP, which is created if missing and must have no members.

    A share group begins at them.
    """
    from ottla.client.administration.group_resets import (
        begin_at,
        check_nobody_reads,
        check_there,
    )

    wanted = dict(_commit(one) for one in offsets)
    with target.admin() as admin:
        check_there(admin, list(wanted))
        known = KnownGroups(admin)
        check_nobody_reads(admin, group, known.names)
        kind = known.kind_of(group)
        if is_share and kind not in ("", SHARE):
            raise UserError(f"group {group} is no share group; leave out --share")
        begin_at(admin, group, SHARE if is_share else kind, wanted)
    output.say(
        f"{group}: committed {counted(len(wanted), 'offset')}",
        *(
            {"group": group, "topic": one.topic, "partition": one.partition, "offset": offset}
            for one, offset in wanted.items()
        ),
    )


@click.command(
    "delete",
    cls=TargetCommand,
    examples=(
        "ottla groups delete localhost:9092 billing",
        "ottla groups delete localhost:9092 billing --topic orders",
    ),
)
@target_argument()
@click.argument(
    "patterns", metavar="GROUP...", nargs=-1, required=True, shell_complete=complete_groups
)
@click.option(
    "--topic",
    "-t",
    "topics",
    multiple=True,
    metavar="TOPIC[:PARTITION,...]",
    help="Delete only the offsets of this topic; repeatable.",
)
@yes_option
@output_options()
def delete_command(
    target: Target,
    patterns: tuple[str, ...],
    topics: tuple[str, ...],
    is_confirmed: bool,
    output: Output,
) -> None:
    """Delete groups with their offsets, or their offsets of some topics.

    A group must have no members. At a terminal the command asks first.
    """
    from ottla.client.administration.group_resets import begins_of, forget, places_to_reset

    with target.admin() as admin:
        known = KnownGroups(admin)
        names = known.matching(patterns)
        if not names:
            known.end()
        what = ", ".join(names)
        of = f" for {', '.join(topics)}" if topics else ""
        offsets = "the offsets of " if topics else ""
        confirm(
            f"Delete {offsets}{counted(len(names), 'group')} ({what}){of}?",
            is_confirmed=is_confirmed,
        )
        gone: list[dict[str, Any]] = []
        if not topics:
            admin.delete_groups(names)
            gone += ({"group": name, "is_deleted": True} for name in names)
        for name in names if topics else ():
            committed = begins_of(admin, name, known.kind_of(name))
            places = places_to_reset(admin, name, topics, committed)
            forget(admin, name, known.kind_of(name), places)
            gone += (
                {"group": name, "topic": topic, "partition": index, "is_deleted": True}
                for topic, index in places
            )
    output.say(f"deleted {offsets}{what}{of}", *gone)
    known.end()


def _reset(place: str | None, shift: int | None, csv_path: Path | None) -> "Reset | None":
    from ottla.diagnosis.offset_reset import PLACES, Reset, ResetKind, parse_place

    if sum(one is not None for one in (place, shift, csv_path)) != 1:
        raise UserError(
            f"name one of --to PLACE, --shift N and --from-csv FILE; a place is {PLACES}"
        )
    if shift is not None:
        return Reset(kind=ResetKind.SHIFT, number=shift)
    return None if place is None else parse_place("--to", place, SystemClock().now_ms())


def _planned_by_file(
    admin: "Admin", path: Path, committed: dict[TopicPartition, int]
) -> "list[PlannedOffset]":
    from ottla.client.administration.group_resets import check_there
    from ottla.diagnosis.offset_reset import Reset, ResetKind, plan_reset, read_csv

    try:
        text = sys.stdin.read() if str(path) == "-" else path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "is not text"
        raise UserError(f"{path}: {reason}; name a file of TOPIC,PARTITION,OFFSET") from error
    wanted = read_csv(str(path), text)
    check_there(admin, list(wanted))
    bounds = admin.bounds(wanted)
    return [
        one
        for place, offset in sorted(wanted.items())
        for one in plan_reset(
            Reset(kind=ResetKind.OFFSET, number=offset), committed, {place: bounds[place]}, {}
        )
    ]


def _commit(text: str) -> tuple[TopicPartition, int]:
    place, equals, offset = text.rpartition("=")
    topic, numbers = parse_places(place)
    if not equals or not offset.isdigit() or numbers is None or len(numbers) != 1:
        raise UserError(f"{text}: an offset is TOPIC:PARTITION=OFFSET, such as orders:0=1500")
    return TopicPartition(topic, numbers[0]), int(offset)


def _show(
    group: str, planned: "list[PlannedOffset]", output: Output, *, is_executed: bool, as_csv: bool
) -> None:
    from ottla.diagnosis.offset_reset import csv_of

    if as_csv:
        click.echo(csv_of(planned), nl=False)
    elif output.as_json:
        for one in planned:
            print_json(
                {
                    "group": group,
                    "topic": one.place.topic,
                    "partition": one.place.partition,
                    "before": one.before,
                    "after": one.after,
                    "lag": one.end_offset - one.after,
                    "is_clamped": one.is_clamped,
                    "is_done": is_executed,
                }
            )
    elif not output.is_quiet:
        columns = ("topic", "#partition", "#committed", "#then", "#change", "#lag then", "")
        print_rows(columns, [_row(one) for one in planned])
    changed = counted(sum(one.is_changed for one in planned), "offset")
    done = f"{changed} changed" if is_executed else f"{changed} would change; --yes does it"
    output.remark(f"{group}: {done}")


def _row(one: "PlannedOffset") -> tuple[object, ...]:
    change = "" if one.before is None or not one.is_changed else f"{one.after - one.before:+,}"
    return (
        one.place.topic,
        one.place.partition,
        "–" if one.before is None else one.before,
        one.after,
        change,
        f"{one.end_offset - one.after:,}",
        "the log's end" if one.is_clamped and one.after == one.end_offset
        else "the log's start" if one.is_clamped else "",
    )  # fmt: skip
