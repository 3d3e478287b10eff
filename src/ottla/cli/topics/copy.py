"""`ottla topics copy`: the records of a topic in a new topic of the same cluster."""

from contextlib import ExitStack
from typing import TYPE_CHECKING

import click

from ottla.base.texts import size_text
from ottla.cli.completion.names import complete_topics
from ottla.cli.output import Output, output_options
from ottla.cli.target import Target, TargetCommand, target_argument
from ottla.cli.terminal import Stopping, counted, progress_line
from ottla.cli.topics.change import check_settings, settings_option, topic_changes

if TYPE_CHECKING:
    from ottla.client.connecting.cluster import Cluster
    from ottla.mirror.topic_copy import CopyProgress


@click.command(
    "copy",
    cls=TargetCommand,
    examples=(
        "ottla topics copy localhost:9092 orders orders-2026",
        "ottla topics copy localhost:9092 orders orders-compact -o cleanup.policy=compact",
    ),
)
@target_argument()
@click.argument("source", metavar="TOPIC", shell_complete=complete_topics)
@click.argument("new", metavar="NEW")
@settings_option
@click.option("--dry-run", is_flag=True, help="Print what would be copied without copying it.")
@output_options()
def copy_command(
    target: Target,
    source: str,
    new: str,
    settings: tuple[str, ...],
    dry_run: bool,
    output: Output,
) -> None:
    """Copy the records that TOPIC has now into the topic NEW, which is created.

    NEW has the partitions and settings of TOPIC, but for those of -o. Committed records are copied
    with their keys, values, headers, timestamps and partitions; they get new offsets. After an
    interruption NEW has a part of them: delete it, and copy again.
    """
    from ottla.client.administration.admin import Admin
    from ottla.config.topic import TopicConfig
    from ottla.mirror.topic_copy import copy_records, create_copy, plan_topic_copy

    given = topic_changes(settings)
    check_settings(given, TopicConfig())
    with ExitStack() as stack:
        reader, writer = _clusters(target, stack)
        admin = Admin(writer)
        plan = plan_topic_copy(admin, source, new, given)
        create_copy(admin, plan, validate_only=dry_run)
        fields = {"topic": source, "copy": new, "partitions": len(plan.ranges)}
        if dry_run:
            what = counted(f"{plan.total:,}", "offset")
            output.say(
                f"would copy {what} of {source} to {new}",
                {**fields, "offsets": plan.total, "is_done": False},
            )
            return
        stop = stack.enter_context(Stopping())
        line = stack.enter_context(progress_line(f"copy {source}", noun="offsets"))

        def on_progress(progress: "CopyProgress") -> None:
            line.say(f"copy {source}", progress.offset_count, plan.total)
            stop.check()

        done = copy_records(reader, writer, plan, on_progress)
    what = counted(f"{done.record_count:,}", "record")
    output.say(
        f"copied {what} ({size_text(done.size)}) of {source} to {new}",
        {**fields, "records": done.record_count, "size": done.size, "is_done": True},
    )


def _clusters(target: Target, stack: ExitStack) -> "tuple[Cluster, Cluster]":
    """One to read and one to write, on one open log of a directory."""
    from ottla.client.connecting.target import open_target

    place = stack.enter_context(target.for_clients())
    settings = target.patient().client_settings()
    reader = stack.enter_context(open_target(place, settings))
    return reader, stack.enter_context(open_target(place, settings))
