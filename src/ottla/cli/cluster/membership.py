"""`ottla cluster add-controller`, `remove-controller`, `unregister` and `features`: what a KRaft
cluster consists of.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from ottla.base.addresses import parse_address
from ottla.base.errors import UserError
from ottla.cli.output import Output, output_options
from ottla.cli.tables import print_rows
from ottla.cli.target import Target, TargetCommand, target_argument
from ottla.cli.terminal import confirm, print_json, yes_option

if TYPE_CHECKING:
    from ottla.client.administration.quorum import ClusterFeature

COLUMNS = ("feature", "#level", "", "#lowest", "#highest")
METADATA_VERSION = "metadata.version"
UP = (
    "note: node {} is up: with controller.quorum.auto.join.enable it soon votes again; to prevent "
    "that, stop it, or restart it without that setting"
)

node_argument = click.argument("node", metavar="NODE", type=int)
directory_option = click.option(
    "--directory",
    metavar="ID",
    help="directory.id of its meta.properties; looked up by default, and needed only if the node "
    "has been here with another disk.",
)


@click.command(
    "add-controller",
    cls=TargetCommand,
    examples=("ottla cluster add-controller localhost:9092 4 --at host4:9093",),
)
@target_argument()
@node_argument
@click.option(
    "--at",
    "address",
    required=True,
    metavar="HOST:PORT",
    help="Where the other controllers reach it: its listener for controllers.",
)
@click.option(
    "--listener",
    metavar="NAME",
    help="Name of that listener; by default that of the other controllers (the first of "
    "controller.listener.names).",
)
@directory_option
@output_options()
def add_controller_command(
    target: Target,
    node: int,
    address: str,
    listener: str | None,
    directory: str | None,
    output: Output,
) -> None:
    """Make the running controller NODE a voter of the quorum.

    It must follow the metadata log (ottla cluster status TARGET lists it as observer), and have
    caught up. With controller.quorum.auto.join.enable a controller does so by itself.
    """
    host, port = parse_address(address)
    with target.admin() as admin:
        admin.add_raft_voter(node, listener, host, port, directory=directory)
    output.say(f"node {node} is a voter", {"node": node, "is_voter": True})


@click.command(
    "remove-controller",
    cls=TargetCommand,
    examples=(
        "ottla cluster remove-controller localhost:9092 4",
        "ottla cluster remove-controller localhost:9092 4 --unregister",
    ),
)
@target_argument()
@node_argument
@directory_option
@click.option("--unregister", is_flag=True, help="Forget it too (metadata.version 33): it is gone.")
@yes_option
@output_options()
def remove_controller_command(
    target: Target,
    node: int,
    directory: str | None,
    unregister: bool,
    is_confirmed: bool,
    output: Output,
) -> None:
    """Take the vote of controller NODE away, which may be down for good.

    A running one with controller.quorum.auto.join.enable would join again: stop it first.
    """
    with target.admin() as admin:
        status = admin.describe_quorum()
        confirm(f"Remove voter {node}?", is_confirmed=is_confirmed)
        admin.remove_raft_voter(node, directory=directory)
        if status is not None and any(
            one.node == node and not status.is_silent(one) for one in status.voters
        ):
            click.echo(UP.format(node), err=True)
        output.say(f"node {node} is no voter any more", {"node": node, "is_voter": False})
        if unregister:
            admin.unregister_controller(node)
            _say_unregistered("controller", node, output)


@click.command(
    "unregister",
    cls=TargetCommand,
    examples=(
        "ottla cluster unregister localhost:9092 4",
        "ottla cluster unregister localhost:9092 4 --controller",
    ),
)
@target_argument()
@click.argument("broker", metavar="BROKER", type=int)
@click.option(
    "--controller", "is_controller", is_flag=True, help="Forget the controller of this id instead."
)
@yes_option
@output_options()
def unregister_command(
    target: Target, broker: int, is_controller: bool, is_confirmed: bool, output: Output
) -> None:
    """Forget BROKER, which is down for good.

    Move its replicas to other brokers first: ottla cluster drain TARGET BROKER. A controller loses
    its vote first: ottla cluster remove-controller TARGET NODE. Until it is forgotten, which needs
    metadata.version 33, no level is raised above what it supported.
    """
    with target.admin() as admin:
        if is_controller:
            confirm(f"Forget controller {broker}?", is_confirmed=is_confirmed)
            admin.unregister_controller(broker)
            _say_unregistered("controller", broker, output)
            return
        found = admin.describe_cluster()
        if broker in found.brokers:
            raise UserError(f"broker {broker} is up: stop it first, or it registers again")
        confirm(f"Forget broker {broker}?", is_confirmed=is_confirmed)
        admin.unregister_broker(broker)
    _say_unregistered("broker", broker, output)


def _say_unregistered(kind: str, node: int, output: Output) -> None:
    output.say(f"unregistered {kind} {node}", {kind: node, "is_registered": False})


@click.command(
    "features",
    cls=TargetCommand,
    examples=(
        "ottla cluster features localhost:9092",
        "ottla cluster features localhost:9092 --upgrade metadata.version=25",
        "ottla cluster features localhost:9092 --downgrade transaction.version=1",
    ),
)
@target_argument()
@click.option(
    "--upgrade", "raised", multiple=True, metavar="NAME=LEVEL", help="Raise a feature. Repeatable."
)
@click.option(
    "--downgrade", "lowered", multiple=True, metavar="NAME=LEVEL", help="Lower one. Repeatable."
)
@click.option(
    "--unsafe", is_flag=True, help="Lower it even if metadata is lost, which its level lacks."
)
@click.option("--dry-run", is_flag=True, help="Only check whether it could be done.")
@yes_option
@output_options()
def features_command(
    target: Target,
    raised: tuple[str, ...],
    lowered: tuple[str, ...],
    is_confirmed: bool,
    output: Output,
    **how: bool,
) -> None:
    """Show the levels of the cluster's features, or change them; Kafka's kafka-features.

    All nodes must support a level. An upgrade of metadata.version may not be taken back.
    """
    from ottla.client.administration.quorum import FeatureDirection

    if raised and lowered:
        raise UserError("--upgrade and --downgrade exclude each other: do one after the other")
    if how["unsafe"] and not lowered:
        raise UserError("--unsafe is for --downgrade")
    levels = _levels(raised or lowered)
    with target.admin() as admin:
        if not levels:
            _show(admin.describe_features(), output)
            return
        names = ", ".join(f"{name} to {level}" for name, level in levels.items())
        direction = FeatureDirection.UPGRADE if raised else FeatureDirection.DOWNGRADE
        if how["unsafe"]:
            direction = FeatureDirection.UNSAFE_DOWNGRADE
        if not how["dry_run"]:
            verb = "Raise" if raised else "Lower"
            confirm(f"{verb} {names}?", is_confirmed=is_confirmed)
        admin.update_features(levels, direction, dry_run=how["dry_run"])
    done = "could change" if how["dry_run"] else "changed"
    output.say(f"{done} {names}", {"levels": dict(levels), "is_done": not how["dry_run"]})


def _levels(texts: tuple[str, ...]) -> dict[str, int]:
    """Raises `UserError`; `metadata.version` may have Kafka's name of a level."""
    from ottla.metadata.levels import METADATA_LEVELS

    named = {one.name: one.level for one in METADATA_LEVELS}
    levels = {}
    for text in texts:
        name, _, level = text.partition("=")
        known = named.get(level) if name == METADATA_VERSION else None
        if known is None and not level.isdecimal():
            raise UserError(f"{text} must look like metadata.version=25, or =4.0-IV3")
        levels[name] = int(level) if known is None else known
    return levels


def _show(features: "Mapping[str, ClusterFeature]", output: Output) -> None:
    from ottla.metadata.levels import METADATA_LEVELS

    named = {one.level: one.name for one in METADATA_LEVELS}
    rows = []
    for name, one in features.items():
        release = named.get(one.level, "") if name == METADATA_VERSION else ""
        rows.append((name, one.level, release, one.lowest, one.highest))
        if output.as_json:
            print_json(
                {"name": name, "level": one.level, "lowest": one.lowest, "highest": one.highest}
            )
    if not output.as_json and not output.is_quiet:
        print_rows(COLUMNS, rows)
