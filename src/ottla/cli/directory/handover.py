"""`ottla handover`: prepares a data directory for Apache Kafka in KRaft mode."""

import os
import time
from typing import TYPE_CHECKING

import click

from ottla.cli.output import Output, output_options
from ottla.cli.terminal import ExampleCommand

if TYPE_CHECKING:
    from ottla.broker.adoption.handover import Handover

SERVER_PROPERTIES = """\
start Apache Kafka with a server.properties that says
  process.roles=broker,controller
  node.id={node_id}
  controller.quorum.voters={node_id}@localhost:9093
  listeners=PLAINTEXT://:9092,CONTROLLER://:9093
  controller.listener.names=CONTROLLER
  log.dirs={log_dirs}{metadata}
  offsets.topic.replication.factor=1
  transaction.state.log.replication.factor=1
  transaction.state.log.min.isr=1"""
AUTHORIZER = "  authorizer.class.name={name}, and the super.users of the broker"


@click.command("handover", cls=ExampleCommand, examples=("ottla handover data/",))
@click.argument("directories", metavar="DIR...", nargs=-1, required=True)
@click.option("--dry-run", is_flag=True, help="Print what would be written without writing it.")
@output_options()
def handover_command(directories: tuple[str, ...], dry_run: bool, output: Output) -> None:
    """Check that Apache Kafka can start on the log directories DIR in KRaft mode.

    The metadata log is Kafka's already; the command writes what may be missing, such as the log of
    a directory in which nothing was ever changed. Name all directories of the broker. It must have
    been stopped cleanly.
    """
    from ottla.base.files import OsFileSystem
    from ottla.broker.adoption.handover import (
        HandoverOptions,
        locked,
        plan_handover,
        write_handover,
    )
    from ottla.config.security import STANDARD_AUTHORIZER
    from ottla.runtime.opening import new_id

    files = OsFileSystem()
    options = HandoverOptions(now_ms=time.time_ns() // 1_000_000, new_id=new_id)
    with locked(directories, files):
        plan = plan_handover(directories, files, options)
        if dry_run:
            text = f"{len(plan.records)} records would be written to {plan.folder}"
            output.say(text, {**_fields(plan), "is_done": False})
            return
        lines = write_handover(plan, files, options)
    text = "\n".join(lines) or "nothing to write: the metadata log is up to date"
    output.say(text, {**_fields(plan), "is_done": True})
    output.say(_summary(plan))
    output.say(
        SERVER_PROPERTIES.format(
            node_id=plan.node_id,
            log_dirs=",".join(map(os.path.abspath, directories)),
            metadata=""
            if plan.metadata_path == directories[0]
            else f"\n  metadata.log.dir={os.path.abspath(plan.metadata_path)}",
        )
    )
    if plan.new.acls:
        output.say(AUTHORIZER.format(name=STANDARD_AUTHORIZER))


def _counts(plan: "Handover") -> dict[str, int]:
    topics = plan.new.topics.values()
    settings = sum(len(topic.configs) for topic in topics)
    return {
        "topics": len(topics),
        "partitions": sum(len(topic.partitions) for topic in topics),
        "settings": settings + sum(len(values) for values in plan.new.configs.values()),
        "quotas": sum(map(len, plan.new.quotas.values())),
        "users": len({user for user, _ in plan.new.credentials}),
        "acls": plan.new.acl_count,
        "next_producer_id": plan.new.next_producer_id,
    }


def _fields(plan: "Handover") -> dict[str, object]:
    place = {"metadata_log": plan.folder, "node_id": plan.node_id}
    return {**place, "records": len(plan.records), **_counts(plan)}


def _summary(plan: "Handover") -> str:
    count = _counts(plan)
    return (
        f"{count['topics']} topics with {count['partitions']} partitions, {count['settings']} "
        f"settings, {count['quotas']} quotas, {count['users']} users, {count['acls']} ACLs, next "
        f"producer id {count['next_producer_id']}"
    )
