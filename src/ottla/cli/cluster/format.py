"""`ottla cluster format` and `new-id`: the directories of a new node of a KRaft cluster."""

import base64
import binascii
import os
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from ottla.base.errors import UserError
from ottla.base.ids import parse_uuid, uuid_text
from ottla.base.patterns import lazy_pattern
from ottla.cli.output import Output, output_options
from ottla.cli.settings_files import broker_config_option, given_settings, with_secrets
from ottla.cli.terminal import ExampleCommand

if TYPE_CHECKING:
    from ottla.config.broker import BrokerConfig
    from ottla.metadata.image_changes import VersionedRecord
    from ottla.quorum.voters import Endpoint

LISTENER: Final = "CONTROLLER://localhost:9093"
FIRST_WITH_SCRAM: Final = 11
KRAFT_VERSION: Final = "kraft.version"
DEFAULT_ITERATIONS: Final = 4096
SALT_SIZE: Final = 16

_SCRAM = lazy_pattern(r"(SCRAM-SHA-(?:256|512))=\[(.*)\]")
_FEATURE = lazy_pattern(r"([a-z.]+)=([0-9]{1,5})")
_LISTENER = lazy_pattern(r"([A-Za-z0-9_]+)://(.+)")


@click.command(
    "format",
    cls=ExampleCommand,
    examples=(
        "ottla cluster format data/ --cluster-id $(ottla cluster new-id) --node-id 1 --standalone",
        "ottla cluster format data/ --cluster-id MkU3OEVBNTcwNTJENDM2Qg --node-id 2 "
        "--no-initial-controllers",
    ),
)
@click.argument("paths", metavar="[DIR]...", nargs=-1, type=click.Path(file_okay=False))
@broker_config_option
@click.option(
    "--cluster-id",
    "-t",
    metavar="ID",
    required=True,
    envvar="CLUSTER_ID",
    help="The id of the cluster; also CLUSTER_ID in the environment.",
)
@click.option("--node-id", type=click.IntRange(min=0), help="The id of the node, its node.id.")
@click.option("--standalone", is_flag=True, help="The node is the first and only controller.")
@click.option(
    "--initial-controllers",
    metavar="ID@HOST:PORT:DIRECTORY-ID,...",
    help="The controllers that the cluster begins with; the same list for each of them.",
)
@click.option(
    "--no-initial-controllers",
    is_flag=True,
    help="The node comes to a cluster that exists, or controller.quorum.voters names controllers.",
)
@click.option(
    "--listener",
    metavar="NAME://HOST:PORT",
    help="Where others reach this controller, with the name of its listener, unless the --config "
    f"file says so; {LISTENER} by default.",
)
@click.option("--release-version", metavar="RELEASE", help="The release of the cluster, as 3.9.")
@click.option(
    "--feature", "features", multiple=True, metavar="NAME=LEVEL", help="The level of a feature."
)
@click.option(
    "--add-scram",
    "scram",
    multiple=True,
    metavar="MECHANISM=[name=USER,password=...]",
    help="A user of the new cluster, as SCRAM-SHA-256=[name=ana,password=${env:SECRET}].",
)
@click.option("--ignore-formatted", is_flag=True, help="Leave formatted directories as they are.")
@output_options()
def format_command(
    paths: tuple[str, ...], config_file: str | None, output: Output, **given: Any
) -> None:
    """Prepare the directories of a new node of a KRaft cluster, as kafka-storage format does.

    Each gets the ids of cluster and node. Without DIR they are log.dirs of the --config file.
    Settings may also be in the environment, as for ottla serve: KAFKA_NODE_ID is node.id.
    """
    from ottla.base.files import OsFileSystem
    from ottla.broker.metadata.formatting import (
        FormatOptions,
        format_directories,
        parse_initial_controllers,
    )
    from ottla.cli.environment import settings_in
    from ottla.config.broker import broker_config
    from ottla.runtime.opening import new_id

    settings = {**given_settings(config_file, ()), **settings_in(os.environ)}
    config = broker_config(settings)
    _check_choice(given, config if settings else None)
    listener = _listener(given["listener"], config)
    initial = given["initial_controllers"]
    node_id = _node_id(given["node_id"], config)
    options = FormatOptions(
        node_id=node_id,
        cluster_id=_cluster_id(given["cluster_id"]),
        records=_records(given),
        now_ms=time.time_ns() // 1_000_000,
        new_id=new_id,
        metadata_directory=config.metadata_log_dir,
        standalone=listener if given["standalone"] else None,
        voters=None if initial is None else parse_initial_controllers(initial, listener.name),
        ignore_formatted=given["ignore_formatted"],
    )
    for one in format_directories(_directories(paths, config), OsFileSystem(), options):
        directory_id = "" if one.directory_id is None else uuid_text(one.directory_id)
        verb = "formatted for" if one.is_new else "was formatted before, for"
        output.say(
            f"{one.path} {verb} node {node_id} of cluster {options.cluster_id}, as {directory_id}",
            {
                "directory": one.path,
                "directoryId": directory_id,
                "isNew": one.is_new,
                "clusterId": options.cluster_id,
                "node": node_id,
            },
        )


@click.command("new-id", cls=ExampleCommand, examples=("ottla cluster new-id",))
@output_options()
def new_id_command(output: Output) -> None:
    """Print a random id for a new cluster, or for the directory of a controller."""
    from ottla.runtime.opening import new_cluster_id

    text = new_cluster_id()
    output.say(text, {"id": text})


def _check_choice(given: Mapping[str, Any], config: "BrokerConfig | None") -> None:
    names = ("standalone", "initial_controllers", "no_initial_controllers")
    chosen = [f"--{name.replace('_', '-')}" for name in names if given[name]]
    if len(chosen) > 1:
        raise UserError(f"{' and '.join(chosen)}: choose one of them")
    if chosen or config is None or not config.has_controller_role:
        return
    if not config.controller_quorum_voters:
        raise UserError(
            "controller.quorum.voters names no controllers: say --standalone for the first node, "
            "--initial-controllers for several, or --no-initial-controllers for a later one"
        )


def _directories(paths: Sequence[str], config: "BrokerConfig") -> Sequence[str]:
    found = paths or config.log_dirs or ((config.log_dir,) if config.log_dir else ())
    if not found:
        raise UserError("name a directory, or a --config file with log.dirs")
    return found


def _node_id(given: int | None, config: "BrokerConfig") -> int:
    wanted = config.wanted_node_id
    if given is None and wanted is None:
        raise UserError("name the node: --node-id N, or node.id in the settings")
    if None not in (given, wanted) and given != wanted:
        raise UserError(f"--node-id {given}: the settings have node.id={wanted}")
    node_id = wanted if given is None else given
    assert node_id is not None
    return node_id


def _cluster_id(text: str) -> str:
    try:
        parse_uuid(text)
    except ValueError as error:
        raise UserError(
            f"--cluster-id {text}: an id is 22 characters, as ottla cluster new-id makes"
        ) from error
    return text


def _listener(given: str | None, config: "BrokerConfig") -> "Endpoint":
    from ottla.base.addresses import parse_address
    from ottla.config.listeners import controller_listeners
    from ottla.quorum.voters import Endpoint

    if given is None:
        for one in controller_listeners(config):
            return Endpoint(one.name, *(one.advertised or one.address))
    match = _LISTENER.fullmatch(given or LISTENER)
    if match is None:
        raise UserError(f"--listener {given}: a listener is NAME://HOST:PORT, such as {LISTENER}")
    return Endpoint(match[1], *parse_address(match[2]))


# What the cluster begins with


def _records(given: Mapping[str, Any]) -> "list[VersionedRecord]":
    from ottla.metadata.deciding.features import feature_records, new_features
    from ottla.metadata.image import METADATA_VERSION

    asked = dict(map(_feature, given["features"]))
    asked[KRAFT_VERSION] = _kraft_version(given, asked.get(KRAFT_VERSION))
    levels = new_features(given["release_version"], asked)
    levels.pop(KRAFT_VERSION, None)  # the voters' own record has it
    if given["scram"] and levels[METADATA_VERSION] < FIRST_WITH_SCRAM:
        raise UserError("--add-scram needs a cluster of release 3.5 or later")
    return [*feature_records(levels), *map(_credential, given["scram"])]


def _kraft_version(given: Mapping[str, Any], asked: int | None) -> int:
    """Who votes says which level it is: 1 with voters in the log, 0 with voters in the settings."""
    level = int(given["standalone"] or given["initial_controllers"] is not None)
    if asked is None or asked == level or (asked == 1 and given["no_initial_controllers"]):
        return level
    if asked not in (0, 1):
        raise UserError(f"--feature {KRAFT_VERSION}={asked}: there are 0 and 1")
    raise UserError(
        f"--feature {KRAFT_VERSION}={asked}: it is 1 with --standalone or --initial-controllers, "
        "and 0 with controller.quorum.voters"
    )


def _feature(text: str) -> tuple[str, int]:
    match = _FEATURE.fullmatch(text)
    if match is None:
        raise UserError(f"--feature {text}: write NAME=LEVEL, such as metadata.version=21")
    return match[1], int(match[2])


def _credential(text: str) -> "VersionedRecord":
    """Kafka's counterpart: `ScramParser`."""
    from ottla.base.scram import (
        MAX_ITERATIONS,
        MIN_ITERATIONS,
        credential_of_salted,
        salt_password,
    )
    from ottla.metadata.values import credential_record

    match = _SCRAM.fullmatch(text)
    if match is None:
        raise UserError(
            "--add-scram: write SCRAM-SHA-256=[name=USER,password=...], or SCRAM-SHA-512=[...]"
        )
    fields = dict(one.strip().partition("=")[::2] for one in match[2].split(","))
    fields = {name: value.strip('"') for name, value in with_secrets(fields).items()}
    unknown = fields.keys() - {"name", "password", "salt", "saltedpassword", "iterations"}
    if unknown or not fields.get("name") or ("password" in fields) == ("saltedpassword" in fields):
        raise UserError("--add-scram: name a user, and either a password or a saltedpassword")
    iterations = fields.get("iterations", str(DEFAULT_ITERATIONS))
    if not iterations.isdigit() or not MIN_ITERATIONS <= int(iterations) <= MAX_ITERATIONS:
        raise UserError(f"--add-scram: iterations are {MIN_ITERATIONS} to {MAX_ITERATIONS}")
    try:
        salt = base64.b64decode(fields["salt"], validate=True) if "salt" in fields else None
        salt = salt or os.urandom(SALT_SIZE)
        if "password" in fields:
            password = fields["password"].encode()
            salted = salt_password(match[1], password, salt, int(iterations))
        else:
            salted = base64.b64decode(fields["saltedpassword"], validate=True)
    except binascii.Error as error:
        raise UserError(f"--add-scram: salts are base64 ({error})") from error
    credential = credential_of_salted(match[1], salted, salt, int(iterations))
    return credential_record(fields["name"], match[1], credential), 0
