"""`ottla explain stuck`: which producer holds the last stable offset back, since when, and how to
free it; and which replicas are not in sync, and why.
"""

from typing import TYPE_CHECKING

import click

from ottla.base.errors import UserError
from ottla.base.times import second_text
from ottla.cli.completion.names import complete_topics
from ottla.cli.losses import Losses
from ottla.cli.output import Output, output_options
from ottla.cli.tables import print_rows
from ottla.cli.target import Target, TargetCommand, target_argument
from ottla.cli.terminal import counted, offsets_text, print_json

if TYPE_CHECKING:
    from ottla.client.administration.stuck_replicas import StuckReplica
    from ottla.storage.diagnosis.open_transactions import CoordinatorView, Judged, PartitionHeld


@click.command(
    "stuck",
    cls=TargetCommand,
    examples=("ottla explain stuck data/ orders", "ottla explain stuck localhost:9092 orders -p 0"),
)
@target_argument(directories=True)
@click.argument("topic", metavar="TOPIC", shell_complete=complete_topics)
@click.option("--partition", "-p", type=int, help="Partition to read; all by default.")
@output_options("Print one line per partition.")
def stuck_command(target: Target, topic: str, partition: int | None, output: Output) -> None:
    """Find the open transaction that read_committed consumers of TOPIC wait for, and how to end it.

    With brokers, also lists the replicas of TOPIC that are not in sync, and why: the broker is not
    up, or the replica lags, is throttled or has no leader; and leaders that do not answer. TARGET
    is a data directory, even that of a running broker, or HOST:PORT of a broker. Nothing is
    written.
    """
    replicas: list[StuckReplica] = []
    losses = Losses()
    if target.is_directory:
        held, view = _on_disk(target, topic, losses)
    else:
        held, view, replicas = _at_broker(target, topic)
    chosen = [one for one in held if partition in (None, one.partition)]
    replicas = [one for one in replicas if partition in (None, one.place.partition)]
    if not chosen and not replicas:
        have = [one.partition for one in held]
        raise UserError(f"topic {topic} has no partition {partition} here; it has {have}")
    address = "HOST:PORT" if target.is_directory else target.text
    _show(chosen, view, address, output)
    _show_replicas(replicas, address, output)
    losses.end()


def _on_disk(
    target: Target, topic: str, on_lost: Losses
) -> "tuple[list[PartitionHeld], CoordinatorView]":
    from ottla.diagnosis.directories import read_directories
    from ottla.diagnosis.stuck import coordinators_on_disk, held_on_disk
    from ottla.storage.diagnosis.open_transactions import seen_twice

    target.check_directories()
    directories = read_directories(target.directories)
    return seen_twice(
        lambda: held_on_disk(directories, topic),
        lambda: coordinators_on_disk(directories, on_lost),
    )


def _at_broker(
    target: Target, topic: str
) -> "tuple[list[PartitionHeld], CoordinatorView, list[StuckReplica]]":
    from ottla.client.administration.admin import Admin
    from ottla.client.administration.stuck_replicas import Why, stuck_replicas
    from ottla.storage.diagnosis.open_transactions import NO_COORDINATOR, seen_twice

    with target.open() as cluster:
        admin = Admin(cluster)
        replicas = stuck_replicas(admin, topic)
        if any(one.why in (Why.NO_LEADER, Why.SILENT_LEADER) for one in replicas):
            return [], NO_COORDINATOR, replicas  # There is no broker to ask for transactions.
        held, view = seen_twice(lambda: admin.held_partitions(topic), admin.coordinator_view)
        return held, view, replicas


# On a screen


def _show(
    held: "list[PartitionHeld]", view: "CoordinatorView", bootstrap: str, output: Output
) -> None:
    from ottla.base.clock import SystemClock
    from ottla.diagnosis.words.transactions import holding_fields
    from ottla.storage.diagnosis.open_transactions import judge

    now_ms = SystemClock().now_ms()
    judged = [[judge(one, view, now_ms) for one in each.holdings] for each in held]
    if output.as_json:
        for each, ones in zip(held, judged, strict=True):
            print_json(_partition_fields(each))
            for index, one in enumerate(ones):
                print_json(holding_fields(one, index == 0, bootstrap))
        return
    for each, ones in zip(held, judged, strict=True):
        if ones:
            click.echo(_waiting_text(each, ones))
            if not output.is_quiet:
                _show_transactions(ones, bootstrap)
        else:
            click.echo(
                f"{each.where}: nothing is stuck: read_committed consumers see all up to offset "
                f"{each.last_stable_offset}"
            )


def _show_replicas(replicas: "list[StuckReplica]", target: str, output: Output) -> None:
    from ottla.cli.explain.stuck_replicas import replica_fields, replica_lines

    if output.as_json:
        for one in replicas:
            print_json(replica_fields(one, target))
        return
    if output.is_quiet:
        for one in replicas:
            click.echo(replica_lines([one], target)[0][0])
        return
    for lines in replica_lines(replicas, target):
        click.echo("\n".join(lines))


def _partition_fields(held: "PartitionHeld") -> dict[str, object]:
    return {
        "type": "partition",
        "topic": held.topic,
        "partition": held.partition,
        "where": held.where,
        "last_stable_offset": held.last_stable_offset,
        "end_offset": held.end_offset,
        "held_offsets": held.end_offset - held.last_stable_offset,
        "transactions": len(held.holdings),
    }


def _waiting_text(held: "PartitionHeld", judged: "list[Judged]") -> str:
    waiting = offsets_text(held.last_stable_offset, held.end_offset - 1)
    return (
        f"{held.where}: read_committed consumers see nothing from offset "
        f"{held.last_stable_offset} on; {waiting} wait for "
        f"{counted(len(judged), 'open transaction')}"
    )


def _show_transactions(judged: "list[Judged]", bootstrap: str) -> None:
    from ottla.diagnosis.words.transactions import verdict_text, ways_out

    click.echo()
    columns = ("producer", "#from offset", "began (UTC)", "last wrote (UTC)", "is",
               "transactional id")  # fmt: skip
    print_rows(columns, [_row(one) for one in judged])
    click.echo()
    first = judged[0]
    click.echo(
        f"the transaction of producer {first.holding.producer_id} from offset "
        f"{first.holding.first_offset} holds it back: it {verdict_text(first)}"
    )
    click.echo("to free the partition:")
    for line in ways_out(first, bootstrap):
        click.echo(f"  - {line}")


def _row(one: "Judged") -> tuple[object, ...]:
    from ottla.storage.diagnosis.open_transactions import began_ms

    began = began_ms(one)
    return (
        f"{one.holding.producer_id}/{one.holding.producer_epoch}",
        one.holding.first_offset,
        "" if began is None else second_text(began),
        second_text(one.holding.last_timestamp_ms),
        one.verdict.value,
        one.coordinated.transactional_id if one.coordinated else "",
    )
