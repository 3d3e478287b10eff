"""`ottla cluster drain`, `reassign` and `elect`: where replicas and leaders are."""

import json
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ottla.base.errors import UserError
from ottla.base.partitions import TopicPartition
from ottla.base.texts import matching
from ottla.cli.completion.names import complete_topics
from ottla.cli.output import Output, may_move, output_options
from ottla.cli.target import Target, TargetCommand, target_argument
from ottla.cli.terminal import (
    confirm,
    counted,
    deadline,
    parse_seconds,
    parse_size,
    progress_line,
    with_options,
    yes_option,
)

if TYPE_CHECKING:
    from ottla.client.administration.admin import Admin
    from ottla.client.administration.cluster_status import ClusterStatus
    from ottla.client.administration.descriptions import PartitionDescription
    from ottla.client.administration.replica_plans import Move

LOOK_S = 0.2
HEARD_S = 30.0
"""How long brokers may take to learn of a change from the controller or ZooKeeper."""
LED_S = 10.0
"""How long a broker may take to lead, once it was elected."""

plan_options = with_options(
    click.option("--dry-run", is_flag=True, help="Print the plan, and move nothing."),
    click.option("--no-wait", is_flag=True, help="Return once the moves have begun."),
    click.option(
        "--wait",
        metavar="TIME",
        help="Longest wait for the moves; they continue in the background afterwards.",
    ),
    click.option(
        "--throttle",
        metavar="SIZE",
        help="Limit of bytes per second that each broker sends and receives for the moves, such "
        "as 50Mi.",
    ),
    yes_option,
    output_options(),
)


@click.command(
    "drain",
    cls=TargetCommand,
    examples=(
        "ottla cluster drain localhost:9092 3",
        "ottla cluster drain localhost:9092 3 --dry-run",
    ),
)
@target_argument()
@click.argument("broker", metavar="BROKER", type=int)
@plan_options
def drain_command(
    target: Target, broker: int, is_confirmed: bool, output: Output, **how: Any
) -> None:
    """Move all replicas away from BROKER, which can be stopped for good after that.

    Each replica goes to the broker that has the fewest. BROKER may already be down.
    """
    from ottla.client.administration.cluster_status import cluster_status
    from ottla.client.administration.replica_plans import plan_drain

    with target.admin() as admin:
        status = cluster_status(admin)
        known = [one.broker for one in status.brokers]
        if broker not in known:
            raise UserError(f"there is no broker {broker}; there are {', '.join(map(str, known))}")
        moves = plan_drain(status.partitions, broker, status.live)
        _carry_out(moves, admin, output, is_confirmed=is_confirmed, how=how)


@click.command(
    "reassign",
    cls=TargetCommand,
    examples=(
        "ottla cluster reassign localhost:9092 orders --to 1,2,3",
        "ottla cluster reassign localhost:9092 orders --to 1,2,3 --replicas 2",
        "ottla cluster reassign localhost:9092 --plan moves.json",
        "ottla cluster reassign localhost:9092 --cancel",
    ),
)
@target_argument()
@click.argument("patterns", metavar="[TOPIC]...", nargs=-1, shell_complete=complete_topics)
@click.option("--to", "brokers", metavar="ID,ID", help="Brokers to spread the partitions over.")
@click.option(
    "--replicas", "-r", type=click.IntRange(1), metavar="N", help="Replicas of each partition."
)
@click.option(
    "--plan",
    "plan_file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File of moves, in the format of kafka-reassign-partitions.",
)
@click.option("--cancel", is_flag=True, help="Cancel the moves that are under way.")
@plan_options
def reassign_command(
    target: Target,
    patterns: tuple[str, ...],
    brokers: str | None,
    replicas: int | None,
    is_confirmed: bool,
    output: Output,
    **how: Any,
) -> None:
    """Move partitions of topics to other brokers, or change how many replicas they have.

    Without --to, --replicas, --plan and --cancel, list the moves that are under way.
    """
    from ottla.client.administration.cluster_status import cluster_status
    from ottla.client.administration.replica_plans import broker_ids, plan_given, plan_to

    with target.admin() as admin:
        names = matching("topic", patterns, admin.list_topics(internal=True)) if patterns else None
        status = cluster_status(admin, None if names is None else list(names))
        plan_file: Path | None = how["plan_file"]
        if how["cancel"]:
            _cancel(status, admin, output, is_confirmed=is_confirmed)
        elif plan_file is not None:
            moves = plan_given(status.partitions, read_plan(plan_file))
            _carry_out(moves, admin, output, is_confirmed=is_confirmed, how=how)
        elif (brokers, replicas) == (None, None):
            _list(status, output)
        else:
            if names is None:
                raise UserError("name the topics to move; '*' means all of them")
            chosen = status.live if brokers is None else broker_ids(brokers, status.live)
            moves = plan_to(status.partitions, chosen, replicas)
            _carry_out(moves, admin, output, is_confirmed=is_confirmed, how=how)


@click.command(
    "elect",
    cls=TargetCommand,
    examples=("ottla cluster elect localhost:9092",),
)
@target_argument()
@click.argument("patterns", metavar="[TOPIC]...", nargs=-1, shell_complete=complete_topics)
@click.option(
    "--unclean",
    is_flag=True,
    help="Elect a replica that is not in sync where no other is available; this loses records.",
)
@yes_option
@output_options()
def elect_command(
    target: Target, patterns: tuple[str, ...], unclean: bool, is_confirmed: bool, output: Output
) -> None:
    """Elect the preferred replicas as leaders again, of all partitions or those of TOPIC."""
    with target.admin() as admin:
        places = None
        if patterns:
            places = admin.places(matching("topic", patterns, admin.list_topics(internal=True)))
        if unclean:
            confirm("Records may be lost. Elect unclean leaders?", is_confirmed=is_confirmed)
        elected = admin.elect_leaders(places, unclean=unclean)
        wait_until_led(elected, admin, is_unclean=unclean)
    output.say(
        f"elected {counted(len(elected), 'leader')}" if elected else "no election was needed",
        {
            "topics": list(patterns),
            "is_unclean": unclean,
            "is_done": True,
            "elected": [str(one) for one in elected],
        },
    )


# Plans


def read_plan(path: Path) -> dict[TopicPartition, list[int]]:
    """Reads Kafka's file of moves; raises `UserError`."""
    try:
        rows = json.loads(path.read_text())["partitions"]
        return {
            TopicPartition(str(one["topic"]), int(one["partition"])): [
                int(broker) for broker in one["replicas"]
            ]
            for one in rows
        }
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(
            f"{path}: is not a plan of moves: {error}; it must look like "
            '{"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [1, 2]}]}'
        ) from error


def _carry_out(
    moves: "Sequence[Move]",
    admin: "Admin",
    output: Output,
    *,
    is_confirmed: bool,
    how: dict[str, Any],
) -> None:
    from ottla.client.administration.replica_throttles import lift

    plan = [f"{one.place}: {_text(one.before)} -> {_text(one.after)}" for one in moves]
    planned = _objects(moves, is_done=False)
    is_dry_run = bool(how["dry_run"])
    if not may_move(plan, planned, output, is_dry_run=is_dry_run, is_confirmed=is_confirmed):
        return
    rate = None if how["throttle"] is None else parse_size("--throttle", how["throttle"])
    if rate is not None:
        _slow_down(moves, rate, admin)
    admin.alter_partition_reassignments({one.place: one.after for one in moves})
    if how["no_wait"]:
        text = "the moves have begun; ottla cluster reassign TARGET lists them"
        output.say(text, *_objects(moves, is_done=False))
        return
    timeout_s = None if how["wait"] is None else parse_seconds("--wait", how["wait"])
    with deadline(timeout_s):
        wanted = {one.place: one.after for one in moves}
        wait_for_moves(wanted, admin, is_shown=not output.is_quiet)
    if rate is not None:
        lift(moves, admin)
    output.say(f"moved {counted(len(moves), 'partition')}", *_objects(moves, is_done=True))


def _objects(moves: "Sequence[Move]", *, is_done: bool) -> Iterator[dict[str, object]]:
    for one in moves:
        yield {
            "topic": one.place.topic,
            "partition": one.place.partition,
            "before": list(one.before),
            "after": list(one.after),
            "is_done": is_done,
        }


def wait_for_moves(
    wanted: Mapping[TopicPartition, Sequence[int]], admin: "Admin", *, is_shown: bool = True
) -> None:
    """Waits until the moves are done, and all brokers that are up know it: clients ask any one."""
    with progress_line("moving", noun="partitions", is_shown=is_shown) as line:
        while left := wanted.keys() & admin.list_partition_reassignments().keys():
            line.say("moving", len(wanted) - len(left), len(wanted))
            time.sleep(LOOK_S)
        _wait_until_heard(
            lambda: _difference(wanted, admin),
            "the move may have been cancelled; check with ottla cluster status",
        )


def wait_until_led(
    elected: Collection[TopicPartition], admin: "Admin", *, is_unclean: bool = False
) -> None:
    """Waits until those that were elected say so themselves: the controller may elect a broker that
    stands still, as long as its session lasts. Raises `UserError`.
    """
    if elected:
        _wait_until_heard(
            lambda: _unled(elected, admin, is_unclean=is_unclean),
            "what was elected may have stopped; check with ottla cluster status",
            LED_S,
        )


def _unled(elected: Collection[TopicPartition], admin: "Admin", *, is_unclean: bool) -> str:
    """Describes a partition whose new leader does not say that it leads; empty if there is none."""
    from ottla.client.administration.cluster_status import NO_LEADER

    wanted: dict[int, list[TopicPartition]] = {}
    for place, one in _described(elected, admin).items():
        wanted.setdefault(one.leader if is_unclean else one.replicas[0], []).append(place)
    for leader, places in sorted(wanted.items()):
        if leader == NO_LEADER:
            return f"{places[0]} has no leader"
        try:
            found = _described(places, admin, leader)
        except UserError as error:
            return f"{places[0]} was to be led by broker {leader}, of which is known: {error}"
        for place, one in found.items():
            if one.leader != leader:
                return f"{place} is led by {one.leader}, says broker {leader}"
    return ""


def _described(
    places: Collection[TopicPartition], admin: "Admin", broker: int | None = None
) -> "dict[TopicPartition, PartitionDescription]":
    return {
        place: one
        for topic in admin.describe_topics({each.topic for each in places}, broker=broker)
        for one in topic.partitions
        if (place := TopicPartition(topic.name, one.partition)) in places
    }


def _wait_until_heard(lacking: Callable[[], str], hint: str, limit_s: float | None = None) -> None:
    """Waits until brokers have heard of a change; `lacking` describes what they have not heard of.
    Raises `UserError` after `HEARD_S`, or another limit, in which nothing became known.
    """
    said, until_s = "", 0.0
    while words := lacking():
        if words != said:
            said = words
            until_s = time.monotonic() + (HEARD_S if limit_s is None else limit_s)
        elif time.monotonic() >= until_s:
            raise UserError(f"{words}: {hint}")
        time.sleep(LOOK_S)


def _difference(wanted: Mapping[TopicPartition, Sequence[int]], admin: "Admin") -> str:
    """Describes what a broker does not know yet; empty when all know everything."""
    topics = {place.topic for place in wanted}
    for broker in admin.describe_cluster().brokers:
        try:
            described = admin.describe_topics(topics, broker=broker)
        except UserError as error:
            return str(error)  # The broker is stopping, or the topic was deleted.
        for topic in described:
            for one in topic.partitions:
                replicas = wanted.get(TopicPartition(topic.name, one.partition), one.replicas)
                if tuple(replicas) != one.replicas:
                    place = f"{topic.name}-{one.partition}"
                    return f"{place} is on {_text(one.replicas)}, says broker {broker}"
    return ""


def _slow_down(moves: "Sequence[Move]", rate: int, admin: "Admin") -> None:
    """Sets the throttle, and waits until all brokers know it: what they move earlier is not slowed
    down.
    """
    from ottla.client.administration.replica_throttles import brokers_of, slow_down

    slow_down(moves, rate, admin)
    brokers = brokers_of(moves)
    _wait_until_heard(lambda: unslowed(brokers, rate, admin), "check with ottla cluster status")


def unslowed(brokers: Collection[int], rate: int, admin: "Admin") -> str:
    """Describes a broker that is up and has not heard of a rate; empty if there is none."""
    from ottla.client.administration.replica_throttles import FOLLOWER_RATE, LEADER_RATE, rates_of

    up = [one for one in admin.describe_cluster().brokers if one in brokers]
    for broker, rates in rates_of(admin, up).items():
        for one in (LEADER_RATE, FOLLOWER_RATE):
            if rates.get(one) != rate:
                return f"broker {broker} has not heard of {one}={rate}"
    return ""


def _cancel(status: "ClusterStatus", admin: "Admin", output: Output, *, is_confirmed: bool) -> None:
    places = [one.place for one in status.partitions if one.reassignment is not None]
    if not places:
        output.say("no moves are under way")
        return
    confirm(f"Cancel {counted(len(places), 'move')}?", is_confirmed=is_confirmed)
    admin.alter_partition_reassignments(dict.fromkeys(places))
    output.say(
        f"cancelled {counted(len(places), 'move')}",
        *({"topic": one.topic, "partition": one.partition, "is_cancelled": True} for one in places),
    )


def _list(status: "ClusterStatus", output: Output) -> None:
    moving = [one for one in status.partitions if one.reassignment is not None]
    if output.is_brief:
        output.names(one.place for one in moving)
        return
    if not moving:
        output.say("no moves are under way")
    for one in moving:
        assert one.reassignment is not None
        adding, removing = one.reassignment.adding, one.reassignment.removing
        lags = [f"{broker} is {one.lag(broker)} behind" for broker in adding]
        output.say(
            f"{one.place}: to come {_text(adding)}, to go {_text(removing)}; "
            f"{', '.join(lags) or 'all have come'}",
            {
                "topic": one.place.topic,
                "partition": one.place.partition,
                "adding": list(adding),
                "removing": list(removing),
                "lag": {str(broker): one.lag(broker) for broker in adding},
            },
        )


def _text(brokers: Sequence[int]) -> str:
    return ",".join(map(str, brokers)) or "none"
