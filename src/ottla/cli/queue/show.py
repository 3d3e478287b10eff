"""`ottla queue describe` and `explain`: what a share group has in flight, and why again."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import click

from ottla.base.clock import SystemClock
from ottla.base.errors import UserError
from ottla.base.partitions import TopicPartition
from ottla.base.texts import duration_text, parse_places
from ottla.cli.completion.names import complete_groups, complete_topics
from ottla.cli.output import Output, output_options
from ottla.cli.tables import print_rows
from ottla.cli.target import Target, TargetCommand, target_argument
from ottla.cli.terminal import counted, offsets_text, print_json
from ottla.coordinator.share.records_in_flight import DeliveryState, ReturnReason

if TYPE_CHECKING:
    from ottla.client.administration.admin import Admin
    from ottla.client.administration.descriptions import GroupDescription, PartitionLag
    from ottla.coordinator.share.in_flight import InFlight

STATES = {
    DeliveryState.AVAILABLE: "to be delivered again",
    DeliveryState.ACQUIRED: "with a member",
    DeliveryState.ARCHIVING: "on the way to the dead letter topic",
}
REASONS = {
    ReturnReason.RELEASED: "released",
    ReturnReason.REJECTED: "rejected",
    ReturnReason.LOCK_EXPIRED: "lock expired",
    ReturnReason.MEMBER_LOST: "member lost",
    ReturnReason.UNKNOWN: "not known: another leader delivered it",
}


@click.command(
    "describe", cls=TargetCommand, examples=("ottla queue describe localhost:9092 workers",)
)
@target_argument()
@click.argument("group", metavar="GROUP", shell_complete=complete_groups)
@output_options()
def describe_command(target: Target, group: str, output: Output) -> None:
    """Describe a share group: its members, and what it has not finished of each partition."""
    with target.admin() as admin:
        described = _share_group(admin, group)
        lags = admin.group_lag(described)
        found = admin.records_in_flight(group, [one.place for one in lags])
    rows = [_partition(one, found) for one in lags]
    if output.as_json:
        print_json({**_group_fields(described), "by_partition": rows})
        return
    if output.is_quiet:
        return
    members = counted(len(described.members), "member")
    click.echo(f"{group}: {described.state}, {members}")
    if rows:
        click.echo()
        columns = ("topic", "#partition", "#start", "#end", "#lag", "#with members", "#again")
        print_rows(columns, [["–" if one is None else one for one in row.values()] for row in rows])
    if described.members:
        click.echo()
        shown = [
            (one.client_id, one.host.removeprefix("/"), ", ".join(one.topics),
             len(one.assigned), one.member_id)
            for one in described.members
        ]  # fmt: skip
        print_rows(("member", "host", "topics", "#partitions", "id"), shown)


@click.command(
    "explain",
    cls=TargetCommand,
    examples=("ottla queue explain localhost:9092 workers orders",),
)
@target_argument()
@click.argument("group", metavar="GROUP", shell_complete=complete_groups)
@click.argument(
    "topics", metavar="[TOPIC[:PARTITION,...]]...", nargs=-1, shell_complete=complete_topics
)
@output_options()
def explain_command(target: Target, group: str, topics: tuple[str, ...], output: Output) -> None:
    """Explain which records of a share group are where, since when, and why again.

    The reasons are those of earlier deliveries: released, lock expired, member lost.
    """
    with target.admin() as admin:
        described = _share_group(admin, group)
        places = _chosen([one.place for one in admin.group_lag(described)], topics)
        found = admin.records_in_flight(group, places)
    now_ms = SystemClock().now_ms()
    members = {one.member_id: one.client_id for one in described.members}
    output.listing(
        found,
        ("topic", "#partition", "offsets", "state", "#since", "#deliveries", "why again"),
        (
            (
                one.topic,
                one.partition,
                offsets_text(one.first, one.last),
                _state(one, members, now_ms),
                duration_text(max(0, now_ms - one.since_ms)),
                one.delivery_count,
                ", ".join(REASONS[reason] for reason in one.reasons),
            )
            for one in found
        ),
        fields=_fields,
        name=lambda one: f"{one.topic}-{one.partition}:{one.first}-{one.last}",
        none="no records are in flight",
    )


def _share_group(admin: "Admin", group: str) -> "GroupDescription":
    (described,) = admin.describe_groups([group])
    if described.kind != "share":
        raise UserError(
            f"{group} is a group of the {described.kind} protocol, which has no records in "
            f"flight; see ottla groups describe"
        )
    return described


def _chosen(places: Sequence[TopicPartition], topics: Sequence[str]) -> list[TopicPartition]:
    """The group's partitions, or those of them that are named; raises `UserError`."""
    if not topics:
        return list(places)
    chosen: list[TopicPartition] = []
    for text in topics:
        topic, numbers = parse_places(text)
        found = [
            one
            for one in places
            if one.topic == topic and (numbers is None or one.partition in numbers)
        ]
        if not found:
            raise UserError(f"the group reads no partition of {text}")
        chosen += found
    return chosen


def _partition(lag: "PartitionLag", found: "Iterable[InFlight]") -> dict[str, object]:
    counts: Counter[DeliveryState] = Counter()
    for one in found:
        if (one.topic, one.partition) == lag.place:
            counts[one.state] += one.last - one.first + 1
    return {
        "topic": lag.place.topic,
        "partition": lag.place.partition,
        "start": lag.committed,
        "end": None if lag.end_offset < 0 else lag.end_offset,
        "lag": lag.lag,
        "with_members": counts[DeliveryState.ACQUIRED],
        "again": counts[DeliveryState.AVAILABLE],
    }


def _group_fields(one: "GroupDescription") -> dict[str, object]:
    return {
        "group": one.group,
        "state": one.state,
        "coordinator": one.coordinator,
        "by_member": [
            {
                "member_id": each.member_id,
                "client_id": each.client_id,
                "host": each.host,
                "topics": each.topics,
                "assigned": [str(place) for place in each.assigned],
            }
            for each in one.members
        ],
    }


def _state(one: "InFlight", members: dict[str, str], now_ms: int) -> str:
    if one.state != DeliveryState.ACQUIRED:
        return STATES[one.state]
    left_ms = max(0, (one.locked_until_ms or now_ms) - now_ms)
    name = members.get(one.member, "a member that has left")
    return f"with {name} ({one.member}), locked for {duration_text(left_ms)} more"


def _fields(one: "InFlight") -> dict[str, object]:
    return {
        "topic": one.topic,
        "partition": one.partition,
        "first_offset": one.first,
        "last_offset": one.last,
        "state": one.state.name,
        "member_id": one.member or None,
        "since_ms": one.since_ms,
        "locked_until_ms": one.locked_until_ms,
        "delivery_count": one.delivery_count,
        "reasons": [reason.name for reason in one.reasons],
    }
