"""`ottla groups list` and `describe`: how far groups are behind, in records and in time."""

from typing import TYPE_CHECKING

import click

from ottla.base.clock import SystemClock
from ottla.base.errors import ApiError, CorruptionError, UserError
from ottla.base.texts import duration_text
from ottla.cli.completion.names import complete_groups
from ottla.cli.groups.known import KnownGroups
from ottla.cli.losses import Losses
from ottla.cli.output import NAMES_ONLY, Output, output_options
from ottla.cli.tables import print_rows
from ottla.cli.target import Target, TargetCommand, target_argument
from ottla.cli.terminal import counted, print_json
from ottla.coordinator.requests import CLASSIC, CONSUMER, SHARE

if TYPE_CHECKING:
    from ottla.client.administration.admin import Admin
    from ottla.client.administration.descriptions import GroupDescription, PartitionLag

NO_GROUPS = "there are no groups yet"


@click.command(
    "list",
    cls=TargetCommand,
    examples=("ottla groups list localhost:9092", "ottla groups list data/ 'billing-*'"),
)
@target_argument()
@click.argument("patterns", metavar="[GROUP]...", nargs=-1, shell_complete=complete_groups)
@click.option("--state", "states", multiple=True, help="State, such as Stable; repeatable.")
@click.option(
    "--protocol",
    "kinds",
    multiple=True,
    type=click.Choice([CLASSIC, CONSUMER, SHARE]),
    help="Only groups of this protocol; repeatable.",
)
@output_options(NAMES_ONLY)
def list_command(
    target: Target,
    patterns: tuple[str, ...],
    states: tuple[str, ...],
    kinds: tuple[str, ...],
    output: Output,
) -> None:
    """List groups with their lag: records to read, and the age of the first of them.

    Partitions of their topics without a committed offset have no lag; they are counted. Of share
    groups the lag is what they have not finished.

    If a broker does not answer, or files are damaged, what is known is listed, and the command
    exits with 1.
    """
    from ottla.client.administration.admin import Admin

    losses = Losses()
    with target.reading(losses) as cluster:
        admin = Admin(cluster)
        known = KnownGroups(admin, states=states, kinds=kinds, losses=losses)
        names = known.matching(patterns)
        if output.is_brief:
            output.names(names)
        else:
            _list(admin, names, known, output)
    known.end()


def _list(admin: "Admin", names: list[str], known: KnownGroups, output: Output) -> None:
    now_ms = SystemClock().now_ms()
    described = admin.describe_groups(names)
    found = [(one, _known_lags(admin, one, now_ms, known)) for one in described]
    output.listing(
        found,
        ("group", "state", "protocol", "#members", "topics", "#lag", "#late by", "#uncommitted"),
        (_row(one, lags) for one, lags in found),
        fields=lambda one: _fields(*one),
        name=lambda one: one[0].group,
        none=NO_GROUPS,
    )


def _known_lags(
    admin: "Admin", group: "GroupDescription", now_ms: int, known: KnownGroups
) -> "list[PartitionLag] | None":
    """Returns `None` if the broker that leads a partition does not answer, or refuses, or its
    files are damaged."""
    try:
        return admin.group_lag(group, now_ms=now_ms)
    except (ApiError, CorruptionError, UserError) as error:
        known.lag_unknown(group.group, error)
        return None


def _row(one: "GroupDescription", lags: "list[PartitionLag] | None") -> tuple[object, ...]:
    from ottla.client.administration.descriptions import totals

    total = totals(lags or ())
    topics = sorted({each.place.topic for each in lags or ()})
    late = "0 s" if total["lag"] == 0 and lags else duration_text(total["late_ms"])
    return (
        one.group,
        one.state,
        one.kind,
        len(one.members),
        ", ".join(topics),
        "?" if lags is None else f"{total['lag']:,}",
        late,
        "?" if lags is None else total["uncommitted"] or "",
    )


@click.command(
    "describe",
    cls=TargetCommand,
    examples=("ottla groups describe localhost:9092 billing",),
)
@target_argument()
@click.argument(
    "patterns", metavar="GROUP...", nargs=-1, required=True, shell_complete=complete_groups
)
@output_options(NAMES_ONLY)
def describe_command(target: Target, patterns: tuple[str, ...], output: Output) -> None:
    """Describe groups: members, and for each partition offsets and lag in records and time.

    Of a share group each partition has its start offset, the first record not finished; `ottla
    queue explain` shows which records its members have.

    If a broker does not answer, or files are damaged, what is known is printed, and the command
    exits with 1.
    """
    from ottla.client.administration.admin import Admin

    now_ms = SystemClock().now_ms()
    losses = Losses()
    with target.reading(losses) as cluster:
        admin = Admin(cluster)
        known = KnownGroups(admin, losses=losses)
        names = known.matching(patterns)
        if output.is_brief:
            output.names(names)
            known.end()
            return
        described = admin.describe_groups(names)
        found = [(one, _known_lags(admin, one, now_ms, known)) for one in described]
    for number, (one, lags) in enumerate(found):
        if output.as_json:
            print_json({**_fields(one, lags), **_details(one, lags)})
            continue
        if number:
            click.echo()
        _show(one, lags)
    known.end()


def _show(one: "GroupDescription", lags: "list[PartitionLag] | None") -> None:
    left_out = "not begun" if one.kind == SHARE else "not committed"
    behind = "lag not known" if lags is None else _behind(lags, left_out)
    assignor = f", {one.assignor}" if one.assignor else ""
    members = counted(len(one.members), "member")
    click.echo(f"{one.group}: {one.state}, {one.kind} protocol{assignor}, {members}, {behind}")
    if lags:
        click.echo()
        place = "#start offset" if one.kind == SHARE else "#committed"
        columns = ("topic", "#partition", place, "#next offset", "#lag", "#late by",
                   "member")  # fmt: skip
        print_rows(columns, [_lag_row(each) for each in lags])
    for each in lags or ():
        if each.lost_count:
            click.echo(
                f"{each.place.topic}-{each.place.partition}: {each.lost_count:,} records were "
                "deleted before the group had read them",
                err=True,
            )
    if one.members:
        click.echo()
        rows = [
            (
                each.client_id,
                each.host.removeprefix("/"),
                each.instance_id,
                ", ".join(each.topics),
                len(each.assigned),
                each.member_id,
            )
            for each in one.members
        ]
        print_rows(("member", "host", "instance", "topics", "#partitions", "id"), rows)


def _behind(lags: "list[PartitionLag]", left_out: str) -> str:
    from ottla.client.administration.descriptions import totals

    total = totals(lags)
    lag = total["lag"] or 0
    records = counted(f"{lag:,}" if lag > 1 else lag, "record")
    late = "" if total["late_ms"] is None else f", {duration_text(total['late_ms'])} late"
    unknown = total["uncommitted"]
    apart = f", without {counted(unknown, 'partition')} {left_out}" if unknown else ""
    return f"{records} behind{late}{apart}"


def _lag_row(each: "PartitionLag") -> tuple[object, ...]:
    return (
        each.place.topic,
        each.place.partition,
        "–" if each.committed is None else each.committed,
        "–" if each.end_offset < 0 else each.end_offset,
        "–" if each.lag is None else f"{each.lag:,}",
        "0 s" if each.lag == 0 else duration_text(each.late_ms),
        each.member,
    )


def _fields(one: "GroupDescription", lags: "list[PartitionLag] | None") -> dict[str, object]:
    from ottla.client.administration.descriptions import totals

    total = {"lag": None, "late_ms": None, "uncommitted": None} if lags is None else totals(lags)

    return {
        "group": one.group,
        "state": one.state,
        "protocol": one.kind,
        "assignor": one.assignor,
        "coordinator": one.coordinator,
        "members": len(one.members),
        "topics": sorted({each.place.topic for each in lags or ()}),
        **total,
    }


def _details(one: "GroupDescription", lags: "list[PartitionLag] | None") -> dict[str, object]:
    return {
        "by_partition": [
            {
                "topic": each.place.topic,
                "partition": each.place.partition,
                "committed": each.committed,
                "first_offset": None if each.start_offset < 0 else each.start_offset,
                "next_offset": None if each.end_offset < 0 else each.end_offset,
                "lag": each.lag,
                "late_ms": each.late_ms,
                "lost": each.lost_count,
                "client_id": each.member,
            }
            for each in lags or ()
        ],
        "by_member": [
            {
                "member_id": each.member_id,
                "instance_id": each.instance_id,
                "client_id": each.client_id,
                "host": each.host,
                "topics": each.topics,
                "assigned": [f"{place.topic}-{place.partition}" for place in each.assigned],
            }
            for each in one.members
        ],
    }
