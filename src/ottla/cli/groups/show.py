"""`ottla groups list` and `describe`: how far groups are behind, in records and in time."""

from typing import TYPE_CHECKING

import click

from ottla.base.clock import SystemClock
from ottla.base.texts import duration_text, matching
from ottla.cli.completion.names import complete_groups
from ottla.cli.tables import print_rows
from ottla.cli.target import Target, TargetCommand, target_argument
from ottla.cli.terminal import (
    counted,
    json_option,
    print_json,
    quiet_option,
)

if TYPE_CHECKING:
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
@json_option
@quiet_option
def list_command(
    target: Target,
    patterns: tuple[str, ...],
    states: tuple[str, ...],
    as_json: bool,
    is_quiet: bool,
) -> None:
    """List groups with their lag: records to read, and the age of the first of them.

    With -q only the names are printed.
    """
    now_ms = SystemClock().now_ms()
    with target.groups() as admin:
        listed = [one.group for one in admin.list_groups(states=states)]
        names = matching("group", patterns, listed)
        if is_quiet:
            for name in names:
                click.echo(name)
            return
        found = [(one, admin.group_lag(one, now_ms=now_ms)) for one in admin.describe_groups(names)]
    if as_json:
        for one, lags in found:
            print_json(_fields(one, lags))
    elif found:
        columns = ("group", "state", "protocol", "#members", "topics", "#lag", "#late by")
        print_rows(columns, [_row(one, lags) for one, lags in found])
    else:
        click.echo(NO_GROUPS, err=True)


def _row(one: "GroupDescription", lags: "list[PartitionLag]") -> tuple[object, ...]:
    from ottla.client.administration.descriptions import totals

    total = totals(lags)
    topics = sorted({each.place.topic for each in lags})
    late = "0 s" if total["lag"] == 0 and lags else duration_text(total["late_ms"])
    return (
        one.group,
        one.state,
        one.kind,
        len(one.members),
        ", ".join(topics),
        f"{total['lag']:,}",
        late,
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
@json_option
def describe_command(target: Target, patterns: tuple[str, ...], as_json: bool) -> None:
    """Describe groups: members, and for each partition offsets and lag in records and time."""
    now_ms = SystemClock().now_ms()
    with target.groups() as admin:
        names = matching("group", patterns, [one.group for one in admin.list_groups()])
        found = [(one, admin.group_lag(one, now_ms=now_ms)) for one in admin.describe_groups(names)]
    for number, (one, lags) in enumerate(found):
        if as_json:
            print_json({**_fields(one, lags), **_details(one, lags)})
            continue
        if number:
            click.echo()
        _show(one, lags)


def _show(one: "GroupDescription", lags: "list[PartitionLag]") -> None:
    from ottla.client.administration.descriptions import totals

    total = totals(lags)
    late = duration_text(total["late_ms"]) if total["late_ms"] is not None else None
    lag = total["lag"] or 0
    records = counted(f"{lag:,}" if lag > 1 else lag, "record")
    behind = f"{records} behind" + (f", {late} late" if late else "")
    assignor = f", {one.assignor}" if one.assignor else ""
    members = counted(len(one.members), "member")
    click.echo(f"{one.group}: {one.state}, {one.kind} protocol{assignor}, {members}, {behind}")
    if lags:
        click.echo()
        columns = ("topic", "#partition", "#committed", "#next offset", "#lag", "#late by",
                   "member")  # fmt: skip
        print_rows(columns, [_lag_row(each) for each in lags])
    for each in lags:
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


def _lag_row(each: "PartitionLag") -> tuple[object, ...]:
    return (
        each.place.topic,
        each.place.partition,
        "–" if each.committed is None else each.committed,
        each.end_offset,
        "–" if each.lag is None else f"{each.lag:,}",
        "0 s" if each.lag == 0 else duration_text(each.late_ms),
        each.member,
    )


def _fields(one: "GroupDescription", lags: "list[PartitionLag]") -> dict[str, object]:
    from ottla.client.administration.descriptions import totals

    return {
        "group": one.group,
        "state": one.state,
        "protocol": one.kind,
        "assignor": one.assignor,
        "coordinator": one.coordinator,
        "members": len(one.members),
        "topics": sorted({each.place.topic for each in lags}),
        **totals(lags),
    }


def _details(one: "GroupDescription", lags: "list[PartitionLag]") -> dict[str, object]:
    return {
        "by_partition": [
            {
                "topic": each.place.topic,
                "partition": each.place.partition,
                "committed": each.committed,
                "first_offset": each.start_offset,
                "next_offset": each.end_offset,
                "lag": each.lag,
                "late_ms": each.late_ms,
                "lost": each.lost_count,
                "client_id": each.member,
            }
            for each in lags
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
