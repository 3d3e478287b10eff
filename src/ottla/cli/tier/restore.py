"""`ottla tier restore`: a log directory rebuilt from a tier alone."""

import logging
import os
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any

import click

from ottla.base.errors import UserError
from ottla.base.ids import uuid_text
from ottla.base.texts import size_text
from ottla.cli.endings import named_files
from ottla.cli.late_line import CopyLine
from ottla.cli.output import Output, output_options
from ottla.cli.terminal import ExampleCommand, counted, only_logged_from
from ottla.cli.tier.options import chosen_options, contents_of, found_logs

if TYPE_CHECKING:
    from ottla.storage.tiers.contents import TierContents
    from ottla.storage.tiers.restoring import Restored, RestorePlan


@click.command(
    "restore",
    cls=ExampleCommand,
    examples=(
        "ottla tier restore restored/ --tier tier/",
        "ottla tier restore restored/ --tier tier/ -t orders -p 0 --records data/",
    ),
)
@click.argument("directory", metavar="DIR")
@chosen_options
@click.option(
    "--records",
    "directories",
    metavar="DIR",
    multiple=True,
    help="Log directory of the broker that filled the tier, with its records and settings; "
    "repeatable.",
)
@click.option(
    "--from", "from_offset", type=click.IntRange(0), metavar="OFFSET", help="Leave out what is "
    "before OFFSET; for one partition.",
)  # fmt: skip
@click.option("--topic-id", metavar="ID", help="Which of several topics that had the same name.")
@click.option("--dry-run", is_flag=True, help="Print what would be restored without writing it.")
@output_options()
def restore_command(
    directory: str, directories: tuple[str, ...], dry_run: bool, output: Output, **given: Any
) -> None:
    """Rebuild partitions from a tier, in the log directory DIR, which may be new.

    Segments, indexes, producers, leader epochs, checkpoints and the topic's id are as they were up
    to the last offset in the tier; records that were only local are not there. Every batch is
    checked before a partition takes its place, so that an interrupted command leaves whole
    partitions only, and can be run again. Nothing is deleted of a topic whose settings are not
    known (`ottla adopt`).
    """
    from ottla.base.files import OsFileSystem
    from ottla.runtime.opening import new_id
    from ottla.storage.tiers.restoring import Restoring

    with named_files(directory):
        contents = contents_of(directories, given)
        plans = _plans(contents, given, output)
        restoring = Restoring(OsFileSystem(), directory, contents.tier, new_id)
        restoring.check(plans)
        if dry_run:
            for plan in plans:
                output.say(f"{_text(plan)} would be restored", _fields(plan) | {"is_done": False})
            return
        with CopyLine("restoring", is_quiet=output.is_quiet) as line:
            for one in restoring.run(plans, line.show):
                with line.aside():
                    _say(one, output)
    _confirm_settings(directory, plans, contents, output)


def _plans(
    contents: "TierContents", given: Mapping[str, Any], output: Output
) -> "list[RestorePlan]":
    from ottla.storage.tiers.restoring import plan_restore

    logs = found_logs(contents, output)
    known = contents.topics.entries
    if wanted := given["topic_id"]:
        logs = [one for one in logs if uuid_text(one.partition.topic_id) == wanted]
    else:
        # Uploads of a topic that was deleted may be left.
        logs = [
            one
            for one in logs
            if one.partition.topic not in known
            or known[one.partition.topic].topic_id == one.partition.topic_id
        ]
    start = given["from_offset"]
    if start is not None and len(logs) > 1:
        raise UserError(
            f"--from is for one partition, and {len(logs)} are chosen; choose one with -t and -p"
        )
    found = [plan for one in logs if (plan := plan_restore(one, start)) is not None]
    if not found:
        raise UserError(
            f"{contents.tier.address}: nothing that was asked for lies in this tier; "
            "`ottla tier list` lists what does"
        )
    return found


def _text(plan: "RestorePlan") -> str:
    return (
        f"{plan.log.name}: offsets {plan.start_offset} to {plan.end_offset - 1}, "
        f"{size_text(plan.size)}"
    )


def _fields(plan: "RestorePlan") -> dict[str, object]:
    return {
        "type": "partition",
        "topic": plan.key.topic,
        "partition": plan.key.partition,
        "topic_id": uuid_text(plan.log.partition.topic_id),
        "log_start_offset": plan.start_offset,
        "log_end_offset": plan.end_offset,
        "size": plan.size,
    }


def _say(one: "Restored", output: Output) -> None:
    report = one.report
    output.say(
        f"{_text(one.plan)} restored in {one.path} ({counted(report.record_count, 'record')} in "
        f"{counted(report.batch_count, 'batch')}, all sound)",
        _fields(one.plan)
        | {"is_done": True, "path": one.path, "records": report.record_count,
           "batches": report.batch_count},
    )  # fmt: skip


def _confirm_settings(
    directory: str, plans: "Sequence[RestorePlan]", contents: "TierContents", output: Output
) -> None:
    """Records the topics with their settings, as far as these are known, as `ottla adopt` does.

    A new directory gets its identity so, too. That of a Kafka is left as it is, and so is one whose
    metadata log has the topics.
    """
    from ottla.base.clock import SystemClock
    from ottla.base.files import OsFileSystem
    from ottla.broker.adoption.retention_preview import prospects
    from ottla.runtime.opening import open_broker
    from ottla.storage.files.filenames import META_PROPERTIES
    from ottla.storage.files.known_topics import read_known_topics
    from ottla.storage.reading.read_only_directory import ReadOnlyLogDirectory

    files = OsFileSystem()
    topics = {one.key.topic for one in plans} - read_known_topics(files, directory).entries.keys()
    is_new = not os.path.exists(os.path.join(directory, META_PROPERTIES))
    if not topics or not (is_new or ReadOnlyLogDirectory(directory, files).is_ottlas):
        return
    known = contents.topics.entries
    given = {name: known[name].configs for name in topics if name in known}
    confirmed: set[str] = set()
    if given or is_new:
        clock = SystemClock()
        with (
            only_logged_from(logging.ERROR, "ottla"),
            closing(open_broker([directory], {}, clock=clock)) as broker,
        ):
            unknown = broker.unconfirmed.unknown
            defaults = broker.settings.config.topic_defaults
            found = prospects(broker.topics, unknown, defaults, given, clock.now_ms())
            broker.admin.confirm_topics(
                {one.topic: one.settings for one in found if one.is_decided}
            )
            confirmed = topics - unknown.keys()
    left = sorted(topics - confirmed)
    for name in sorted(confirmed):
        settings = dict(known[name].configs) if name in known else {}
        text = " ".join(f"{key}={value}" for key, value in sorted(settings.items()))
        output.say(
            f"{name}: settings as in {', '.join(one.path for one in contents.directories)}: "
            f"{text or 'the defaults'}",
            {"type": "topic", "topic": name, "settings": settings},
        )
    if left:
        output.say(
            f"the settings of {', '.join(left)} are not known: nothing of "
            f"{'it' if len(left) == 1 else 'them'} is deleted until `ottla adopt {directory}` "
            "confirms them",
            {"type": "unconfirmed", "topics": left},
        )
