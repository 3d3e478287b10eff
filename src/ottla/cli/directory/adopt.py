"""`ottla adopt`: confirms the settings of topics whose settings stayed with the Kafka that wrote
them.
"""

import logging
import sys
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ottla.base.errors import ApiError, UserError
from ottla.cli.output import Output, output_options
from ottla.cli.settings_files import given_settings
from ottla.cli.target import check_directory
from ottla.cli.terminal import ExampleCommand, counted, only_logged_from
from ottla.cli.zookeeper_access import read_zookeeper_access, zookeeper_access_option

if TYPE_CHECKING:
    from ottla.base.clock import SystemClock
    from ottla.broker.adoption.retention_preview import Prospect
    from ottla.broker.broker import Broker
    from ottla.cli.directory.adopt_sources import ClusterSettings

EXIT_UNCONFIRMED = 1


@click.command("adopt", cls=ExampleCommand, examples=("ottla adopt kafka/ --config topics.json",))
@click.argument("directories", nargs=-1, required=True, metavar="DIR...")
@click.option(
    "--config",
    "config_file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Topic settings: JSON, or the output of kafka-configs --describe.",
)
@click.option(
    "--zookeeper",
    metavar="HOST:PORT",
    help="ZooKeeper of the cluster, to take settings, quotas, users, ACLs and tokens from.",
)
@zookeeper_access_option
@click.option("-o", "settings", multiple=True, metavar="KEY=VALUE", help="Broker setting.")
@click.option(
    "--yes", "-y", "is_confirmed", is_flag=True, help="Confirm the defaults without asking."
)
@output_options()
def adopt_command(
    directories: tuple[str, ...],
    config_file: Path | None,
    settings: tuple[str, ...],
    is_confirmed: bool,
    output: Output,
    **place: Any,
) -> None:
    """Confirm the settings of topics in the log directories DIR whose settings are unknown.

    Until then nothing of these topics is deleted or compacted. Without --config and --zookeeper the
    command shows what the defaults would delete, and asks. --zookeeper also takes over what clients
    have changed for all brokers and for this one, and quotas, users, ACLs and tokens. The broker
    must be stopped. Exits with 1 when a topic stays unconfirmed.
    """
    from ottla.base.clock import SystemClock
    from ottla.broker.adoption.retention_preview import prospects
    from ottla.cli.directory.adopt_cluster import TakingOver
    from ottla.cli.directory.adopt_sources import read_topic_settings, read_zookeeper
    from ottla.runtime.opening import open_broker

    zookeeper: str | None = place["zookeeper"]
    if config_file is not None and zookeeper is not None:
        raise UserError("--config and --zookeeper exclude each other")
    given: Mapping[str, Mapping[str, str]] | None = None
    cluster: ClusterSettings | None = None
    taking: TakingOver | None = None
    if config_file is not None:
        given = read_topic_settings(config_file)
    elif zookeeper is not None:
        cluster = read_zookeeper(zookeeper, read_zookeeper_access(place["zookeeper_settings"]))
        given = cluster.topics
    _check_directories(directories)
    clock = SystemClock()
    if not _recreate(directories, clock, output, is_confirmed=is_confirmed):
        sys.exit(EXIT_UNCONFIRMED)
    with (
        # The broker's warnings are about what this command repairs.
        only_logged_from(logging.ERROR, "ottla.broker.topics.unconfirmed"),
        closing(open_broker(directories, given_settings(None, settings), clock=clock)) as broker,
    ):
        if cluster is not None:
            taking = TakingOver(broker, cluster)
            given = taking.take_configs()
        unknown, defaults = broker.unconfirmed.unknown, broker.settings.config.topic_defaults
        found = prospects(broker.topics, unknown, defaults, given, clock.now_ms())
        for one in found:
            output.say(_text(one), _fields(one))
        wanted = [one for one in found if one.is_decided]
        if given is not None or is_confirmed or not wanted or _confirm(len(wanted), output):
            _adopt(broker, wanted, output)
        if taking is not None:
            taking.take_the_rest(output)
        left = sorted(broker.unconfirmed.unknown)
    _say_what_is_left(left, len(wanted), output)
    if left:
        sys.exit(EXIT_UNCONFIRMED)


def _check_directories(directories: tuple[str, ...]) -> None:
    for path in directories:
        check_directory(path)


def _recreate(
    directories: tuple[str, ...], clock: "SystemClock", output: Output, *, is_confirmed: bool
) -> bool:
    """Re-creates a metadata log that must not be continued; returns whether it may be now."""
    from ottla.base.files import OsFileSystem
    from ottla.broker.adoption.found_metadata import find_metadata
    from ottla.broker.adoption.handover import HandoverOptions, locked
    from ottla.broker.adoption.recreation import finish, recreate
    from ottla.runtime.opening import new_id

    files = OsFileSystem()
    with locked(directories, files):
        for path in directories:
            finish(path, files)
        found = find_metadata(directories, files)
        if found.refusal is None:
            return True
        output.say(
            f"{found.refusal_reason}. The metadata log is re-created with what it says of the "
            f"{counted(len(found.known.entries), 'topic')} that are here, and this broker is its "
            "only node: do not start other nodes of that cluster with it any more."
        )
        if not (is_confirmed or _asked("Re-create the metadata log?", output)):
            output.say("the metadata log is unchanged; --yes re-creates it")
            return False
        output.say(recreate(found, files, HandoverOptions(now_ms=clock.now_ms(), new_id=new_id)))
    return True


def _confirm(count: int, output: Output) -> bool:
    return _asked(f"Are these the settings of {counted(count, 'topic')}?", output)


def _asked(question: str, output: Output) -> bool:
    if output.as_json or output.is_quiet or not sys.stdin.isatty():
        return False
    return click.confirm(question)


def _adopt(broker: "Broker", wanted: "list[Prospect]", output: Output) -> None:
    if not wanted:
        return
    try:
        broker.admin.confirm_topics({one.topic: one.settings for one in wanted})
    except ApiError as error:
        raise UserError(error.message) from error


def _say_what_is_left(left: list[str], wanted_count: int, output: Output) -> None:
    unconfirmed = f"{counted(len(left), 'topic')} left unconfirmed: {', '.join(left)}"
    if not left:
        done = "nothing is left to confirm" if wanted_count else "nothing is to be confirmed"
        text = f"{done}: the settings of all topics are known"
    elif wanted_count and not sys.stdin.isatty():
        text = (
            f"{unconfirmed}; --yes confirms the defaults, --config FILE or --zookeeper HOST:PORT "
            "gives them their own settings"
        )
    else:
        text = unconfirmed
    output.say(text, {"type": "summary", "left": left})


def _fields(one: "Prospect") -> dict[str, object]:
    config = one.config
    return {
        "type": "topic",
        "topic": one.topic,
        "reason": one.reason,
        "settings": dict(one.settings),
        "refused": dict(one.refused),
        "cleanup_policy": ",".join(config.cleanup_policy),
        "retention_ms": config.retention_ms,
        "retention_bytes": config.retention_bytes,
        "partitions": one.partition_count,
        "size": one.size,
        "deletable_size": one.deletable_size,
    }


def _text(one: "Prospect") -> str:
    config = one.config
    goes = f"{one.deletable_size:,} of them deleted at once" if one.deletable_size else "kept"
    if config.is_compacted:
        goes += ", and compacted"
    lines = [
        f"{one.topic}: cleanup.policy={','.join(config.cleanup_policy)}, "
        f"retention.ms={config.retention_ms}, retention.bytes={config.retention_bytes}; "
        f"{counted(one.partition_count, 'partition')}, {one.size:,} bytes, {goes}"
    ]
    if one.refused:
        named = ", ".join(f"{name}={text}" for name, text in sorted(one.refused.items()))
        what = "not taken over, they have" if one.is_decided else "left unchanged, since they have"
        lines.append(f"  {what} no effect here: {named}")
    return "\n".join(lines)
