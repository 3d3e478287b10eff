"""`ottla cluster status`: brokers, the controller, and the state of each replica."""

import sys
from typing import TYPE_CHECKING

import click

from ottla.base.addresses import address_text
from ottla.base.texts import matching
from ottla.cli.completion.names import complete_topics
from ottla.cli.output import Output, output_options
from ottla.cli.tables import print_rows
from ottla.cli.target import Target, TargetCommand, target_argument
from ottla.cli.terminal import counted, print_json

if TYPE_CHECKING:
    from ottla.client.administration.cluster_status import (
        BrokerStatus,
        ClusterStatus,
        PartitionStatus,
    )

EXIT_COMPLAINTS = 1
WITHOUT_QUORUM = (
    "no controller leads the quorum{words}: this is the last state that the brokers know. A "
    "majority of the voters must be up and reach each other; until then no leader is elected, and "
    "nothing of the cluster changes. Moves are not shown."
)
WITHOUT_CONTROLLER = (
    "the cluster has no controller: this is the last state that its brokers know. A broker that "
    "cannot reach ZooKeeper leads no partition (see the brokers' logs). Moves are not shown."
)

BROKER_COLUMNS = ("#broker", "address", "", "#leads", "#should lead", "#replicas", "#largest lag")
PARTITION_COLUMNS = (
    "partition", "#leader", "#epoch", "replicas", "in sync", "lag", "what is wrong"
)  # fmt: skip


@click.command(
    "status",
    cls=TargetCommand,
    examples=(
        "ottla cluster status localhost:9092",
        "ottla cluster status localhost:9092 orders --partitions",
    ),
)
@target_argument()
@click.argument("patterns", metavar="[TOPIC]...", nargs=-1, shell_complete=complete_topics)
@click.option(
    "--partitions",
    "has_partitions",
    is_flag=True,
    help="List all partitions, not only those with a problem.",
)
@click.option(
    "--controllers",
    "asks_controllers",
    is_flag=True,
    help="Show the quorum of a KRaft cluster; TARGET is a controller or broker.",
)
@output_options()
def status_command(
    target: Target,
    patterns: tuple[str, ...],
    has_partitions: bool,
    asks_controllers: bool,
    output: Output,
) -> None:
    """Show brokers, the controllers, leaders, in-sync replicas and the lag of each replica.

    Lag is in offsets. Exits with 1 if a broker is missing, a voter of the quorum does not fetch,
    or a partition has no leader or a replica that is not in sync. Without a controller, for
    example without a majority of the voters, or while ZooKeeper cannot be reached, it shows the
    last state that the brokers know, says so, and exits with 1.

    With --controllers it shows only the leader, voters and observers of the metadata log, and how
    far they are; TARGET may be a controller then. Exits with 1 if a voter does not fetch.
    """
    if asks_controllers:
        from ottla.cli.cluster.quorum import show_controllers

        show_controllers(target, output)
        return
    from ottla.client.administration.cluster_status import cluster_status

    with target.admin() as admin:
        names = None
        if patterns:
            names = list(matching("topic", patterns, admin.list_topics(internal=True)))
        status = cluster_status(admin, names, needs_controller=False)
    if not status.has_controller:
        why = WITHOUT_CONTROLLER
        if status.quorum is not None:
            words = status.quorum.words
            why = WITHOUT_QUORUM.format(words=words and f" ({words})")
        click.echo(f"warning: {why}", err=True)
    if output.as_json:
        _print_objects(status)
    elif not output.is_quiet:
        _print_tables(status, has_partitions=has_partitions or bool(patterns))
    if status.quorum is not None and status.quorum.is_led:
        from ottla.cli.cluster.quorum import print_quorum

        print_quorum(status.quorum, output)
    if not status.is_sound:
        sys.exit(EXIT_COMPLAINTS)


def _print_tables(status: "ClusterStatus", *, has_partitions: bool) -> None:
    under = sum(one.is_under_replicated for one in status.partitions)
    offline = sum(one.is_offline for one in status.partitions)
    below = sum(one.is_below_min_in_sync for one in status.partitions)
    click.echo(
        f"cluster {status.cluster_id}: {counted(len(status.brokers), 'broker')}, "
        f"{counted(len(status.partitions), 'partition')}, {under} under-replicated, "
        f"{below} below min.insync.replicas, {offline} offline"
    )
    print_rows(BROKER_COLUMNS, [_broker_row(one, status) for one in status.brokers])
    shown = [one for one in status.partitions if has_partitions or wrong(one)]
    if shown:
        click.echo()
        print_rows(PARTITION_COLUMNS, [_partition_row(one) for one in shown])


def _broker_row(one: "BrokerStatus", status: "ClusterStatus") -> tuple[object, ...]:
    return (
        one.broker,
        _place_text(one),
        "controller" if one.broker == status.controller else "",
        one.leader_count,
        one.preferred_count,
        one.replica_count,
        "" if one.largest_lag is None else one.largest_lag,
    )


def _place_text(one: "BrokerStatus") -> str:
    if one.address is None:
        return "is fenced" if one.is_fenced else "is not up"
    return address_text(*one.address) + (" does not answer" if one.is_silent else "")


def _partition_row(one: "PartitionStatus") -> tuple[object, ...]:
    lags = {broker: one.lag(broker) for broker in one.replicas if broker != one.leader}
    return (
        f"{one.place.topic}-{one.place.partition}",
        "none" if one.is_offline else one.leader,
        one.leader_epoch,
        _brokers_text(one.replicas),
        _brokers_text(one.in_sync),
        " ".join(f"{broker}:{'?' if lag is None else lag}" for broker, lag in lags.items()),
        wrong(one),
    )


def wrong(one: "PartitionStatus") -> str:
    """Describes what is wrong in a few words; moves are listed too."""
    words = []
    if one.is_offline:
        words.append("offline")
    elif one.is_below_min_in_sync:
        words.append("below min.insync.replicas")
    elif one.is_under_replicated:
        words.append("under-replicated")
    if one.unread:
        words.append(f"cannot be read on {_brokers_text(one.unread)}")
    if one.eligible:
        words.append(f"may be led by {_brokers_text(one.eligible)} too")
    if one.reassignment is not None:
        adding, removing = one.reassignment.adding, one.reassignment.removing
        words.append(f"moving: {_brokers_text(adding)} for {_brokers_text(removing)}")
    return ", ".join(words)


def _brokers_text(brokers: tuple[int, ...]) -> str:
    return ",".join(map(str, brokers)) or "none"


def _print_objects(status: "ClusterStatus") -> None:
    print_json(
        {
            "type": "cluster",
            "cluster_id": status.cluster_id,
            "controller": status.controller,
            "has_controller": status.has_controller,
            "under_replicated": sum(one.is_under_replicated for one in status.partitions),
            "below_min_isr": sum(one.is_below_min_in_sync for one in status.partitions),
            "offline": sum(one.is_offline for one in status.partitions),
        }
    )
    for broker in status.brokers:
        print_json(
            {
                "type": "broker",
                "broker": broker.broker,
                "address": None if broker.address is None else address_text(*broker.address),
                "is_controller": broker.broker == status.controller,
                "is_fenced": broker.is_fenced,
                "is_silent": broker.is_silent,
                "leaders": broker.leader_count,
                "preferred_leaders": broker.preferred_count,
                "replicas": broker.replica_count,
                "largest_lag": broker.largest_lag,
            }
        )
    for one in status.partitions:
        moved = one.reassignment
        print_json(
            {
                "type": "partition",
                "topic": one.place.topic,
                "partition": one.place.partition,
                "leader": one.leader,
                "leader_epoch": one.leader_epoch,
                "replicas": list(one.replicas),
                "in_sync": list(one.in_sync),
                "eligible": list(one.eligible),
                "unread": list(one.unread),
                "min_in_sync": one.min_in_sync,
                "end_offsets": {str(broker): end for broker, end in one.ends.items()},
                "lag": {str(broker): one.lag(broker) for broker in one.replicas},
                "adding": [] if moved is None else list(moved.adding),
                "removing": [] if moved is None else list(moved.removing),
                "is_offline": one.is_offline,
                "is_under_replicated": one.is_under_replicated,
                "is_below_min_isr": one.is_below_min_in_sync,
            }
        )
