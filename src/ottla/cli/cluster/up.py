"""`ottla cluster up` and `down`: several brokers on this machine, and ZooKeeper if it is wanted."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ottla.base.errors import UserError
from ottla.cli.output import Output, output_options
from ottla.cli.settings_files import parse_setting
from ottla.cli.terminal import ExampleCommand, counted, parse_seconds, print_json
from ottla.storage.files.filenames import META_PROPERTIES

if TYPE_CHECKING:
    from ottla.cli.cluster.local import LocalCluster

DEFAULT_FOLDER = "ottla-cluster"
EXIT_TIMED_OUT = 124
OWN = ""
"""The ZooKeeper that the cluster starts itself."""

data_option = click.option(
    "--data",
    "-d",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    default=DEFAULT_FOLDER,
    show_default=True,
    metavar="DIR",
    help="Folder of the cluster, with a data directory for each broker.",
)


@click.command(
    "up",
    cls=ExampleCommand,
    examples=(
        "ottla cluster up --brokers 3",
        "ottla cluster up --brokers 3 --data cluster/ -o log.retention.hours=24",
        "ottla cluster up --brokers 3 --zookeeper",
        "ottla cluster up --brokers 3 --zookeeper localhost:2181",
        "ottla cluster up --brokers 3 --secure",
    ),
)
@click.option(
    "--brokers",
    "-n",
    "count",
    type=click.IntRange(1, 50),
    metavar="N",
    help="Number of brokers; 3 by default.",
)
@data_option
@click.option(
    "--zookeeper",
    is_flag=False,
    flag_value=OWN,
    metavar="[HOST:PORT]",
    help="Be a cluster over ZooKeeper: a running one, as in zookeeper.connect, or its own.",
)
@click.option(
    "--secure",
    "is_secured",
    is_flag=True,
    help="Set up TLS, logins by SCRAM and ACLs, with generated certificates and users.",
)
@click.option("-o", "settings", multiple=True, metavar="KEY=VALUE", help="Setting of all brokers.")
@output_options("Print the addresses only.")
def up_command(
    count: int | None,
    folder: Path,
    zookeeper: str | None,
    is_secured: bool,
    settings: tuple[str, ...],
    output: Output,
) -> None:
    """Start a cluster on this machine, or those of its processes that are not running.

    Prints "ready HOST:PORT,HOST:PORT ..." once all brokers answer and know each other. Up to three
    of them are its controllers. Other commands accept DIR as TARGET. An existing cluster keeps its
    data, ports and settings; a larger --brokers adds brokers. With --secure the settings of an
    administrator's client are printed, and kept in DIR/security/client.properties.
    """
    from ottla.cli.cluster.local import start_brokers, wait_until_known

    cluster = _cluster(folder, count, zookeeper, is_secured=is_secured)
    security = cluster.security
    # References to secrets are passed on as written: the brokers resolve them.
    given = dict(parse_setting(one, "num.partitions=4") for one in settings)
    cluster = replace(cluster, settings={**cluster.settings, **given})
    cluster.folder.mkdir(parents=True, exist_ok=True)
    if security is not None:
        security.make()
    cluster = _prepared(cluster)
    cluster = replace(cluster, brokers=start_brokers(cluster))
    cluster.save()
    said = "" if security is None else security.write_client_settings(cluster.addresses)
    wait_until_known(cluster)
    bootstrap = ",".join(cluster.addresses)
    if output.as_json:
        print_json(
            {
                "addresses": list(cluster.addresses),
                "brokers": len(cluster.brokers),
                "controllers": cluster.controllers,
                "zookeeper": cluster.zookeeper.connect or None,
                "data": str(folder),
                "client_config": None if security is None else str(security.client_settings),
            }
        )
    elif output.is_quiet:
        click.echo(bootstrap)
    else:
        found = f"controllers={','.join(cluster.controllers)}"
        if not cluster.quorum:
            found = f"zookeeper={cluster.zookeeper.connect}"
        click.echo(f"ready {bootstrap} brokers={len(cluster.brokers)} {found} data={folder}")
        if security is not None:
            click.echo(f"\n# {security.client_settings}\n{said}")


def _prepared(cluster: "LocalCluster") -> "LocalCluster":
    """Formats the directories of a KRaft cluster, or starts ZooKeeper; raises `UserError`."""
    from ottla.cli.cluster.local import start_own_zookeeper
    from ottla.cli.cluster.quorate import formatted

    if cluster.quorum:
        cluster = formatted(cluster)
        cluster.save()
        return cluster
    if not cluster.zookeeper.connect or cluster.zookeeper.port is not None:
        cluster = replace(cluster, zookeeper=start_own_zookeeper(cluster))
    cluster.save()
    if cluster.security is not None:
        cluster.security.add_users(cluster.zookeeper.connect)
    return cluster


def _cluster(
    folder: Path, count: int | None, zookeeper: str | None, *, is_secured: bool
) -> "LocalCluster":
    """Returns the existing cluster, grown if more brokers are asked for, or a new one; raises
    `UserError`.
    """
    from ottla.cli.cluster.local import (
        LocalCluster,
        LocalZooKeeper,
        new_brokers,
        read_cluster,
        settings_of,
    )
    from ottla.runtime.opening import new_cluster_id

    folder = folder.absolute()
    known = read_cluster(folder)
    if is_secured and zookeeper:
        raise UserError(
            f"--secure and --zookeeper {zookeeper} exclude each other: a secured cluster starts "
            "its own ZooKeeper; to secure another one see docs/cluster-zookeeper.md"
        )
    if known is None:
        _check_is_no_log_directory(folder)
        wanted = count or 3
        return LocalCluster(
            folder=folder,
            zookeeper=LocalZooKeeper(connect=zookeeper or OWN),
            brokers=new_brokers(folder, range(1, wanted + 1)),
            settings=settings_of(wanted, has_zookeeper=zookeeper is not None),
            is_secured=is_secured,
            quorum=new_cluster_id() if zookeeper is None else "",
        )
    if is_secured and not known.is_secured:
        raise UserError(
            f"{folder}: the cluster was created without --secure; use another --data for a "
            f"secured one"
        )
    if zookeeper is not None and known.quorum:
        raise UserError(
            f"{folder}: the cluster was created without --zookeeper, and its controllers have its "
            "metadata; use another --data for another cluster"
        )
    if zookeeper not in (None, OWN, known.zookeeper.connect):
        raise UserError(
            f"{folder}: its brokers are registered in {known.zookeeper.connect}, not in "
            f"{zookeeper}; use another --data for another cluster"
        )
    if count is not None and count < len(known.brokers):
        raise UserError(
            f"{folder}: it has {counted(len(known.brokers), 'broker')}, of which none is taken "
            "away here; ottla cluster drain empties one"
        )
    more = new_brokers(folder, range(len(known.brokers) + 1, (count or 0) + 1))
    return replace(known, brokers=(*known.brokers, *more))


def _check_is_no_log_directory(folder: Path) -> None:
    """A folder "broker-1" in one would be a partition of a topic "broker"; raises `UserError`."""
    if (folder / META_PROPERTIES).exists():
        raise UserError(
            f"{folder}: it is a broker's own log directory; name a folder for the cluster, in "
            "which each broker gets a directory"
        )


@click.command(
    "down", cls=ExampleCommand, examples=("ottla cluster down", "ottla cluster down -d cluster/")
)
@data_option
@click.option(
    "--timeout",
    metavar="TIME",
    default="120s",
    show_default=True,
    help="Time to wait for a clean stop; the command exits with 124 when it is over.",
)
@output_options()
def down_command(folder: Path, timeout: str, output: Output) -> None:
    """Stop the brokers of a cluster on this machine, and its own ZooKeeper; the data remain.

    A broker hands its leaderships over before it stops. Exits with 1 if none is running.
    """
    from ottla.cli.cluster.local import read_cluster, stop_brokers, stop_zookeeper

    patience_s = parse_seconds("--timeout", timeout)
    cluster = read_cluster(folder.absolute())
    if cluster is None:
        raise UserError(f"{folder}: holds no cluster; ottla cluster up --data {folder} makes one")
    running = [one for one in cluster.brokers if one.owner is not None]
    if not running and not cluster.zookeeper_runs:
        click.echo(f"nothing runs in {folder}", err=True)
        sys.exit(1)
    left = stop_brokers(cluster, patience_s)
    if left:
        click.echo(f"ottla: not ended in {timeout}: broker {', '.join(map(str, left))}", err=True)
        sys.exit(EXIT_TIMED_OUT)
    stop_zookeeper(cluster)
    output.say(
        f"stopped {counted(len(running), 'broker')} data={folder}",
        {"data": str(folder), "brokers": len(running), "is_stopped": True},
    )
