"""`ottla queue redrive`: dead letters back to the topics that they came from."""

import sys
from collections import Counter

import click

from ottla.cli.completion.names import complete_topics
from ottla.cli.endings import EXIT_FAILED
from ottla.cli.output import Output, output_options
from ottla.cli.target import Target, TargetCommand, target_argument
from ottla.cli.terminal import counted


@click.command(
    "redrive",
    cls=TargetCommand,
    examples=("ottla queue redrive localhost:9092 dlq.orders --dry-run",),
)
@target_argument()
@click.argument("topic", metavar="TOPIC", shell_complete=complete_topics)
@click.option("--dry-run", is_flag=True, help="Print what would be sent.")
@click.option(
    "--number", "-n", "-c", "count", type=click.IntRange(1), help="Maximum number of dead letters."
)
@output_options()
def redrive_command(
    target: Target, topic: str, dry_run: bool, count: int | None, output: Output
) -> None:
    """Send the dead letters in TOPIC back to the topics that they came from.

    Each becomes a new record at the end of its old partition; without a copy in the dead letter
    its record is read again. The dead letters stay where they are. A transaction moves them and
    the offset of group ottla-redrive-TOPIC: none is lost, and none is sent twice. Exits with 1 if
    the records of some are deleted.
    """
    from ottla.client.sharing.redriving import Redrive

    done: Counter[str] = Counter()
    left_count = 0
    with (
        target.for_clients() as place,
        Redrive(place, topic, target.settings) as redrive,
    ):
        for one in redrive.plan(count) if dry_run else redrive.run(count):
            if one.left is None and one.origin is not None:
                done[one.origin.topic] += 1
            else:
                left_count += 1
            origin = None if one.origin is None else f"{one.origin} offset {one.origin_offset}"
            fields = {
                "topic": one.place.topic,
                "partition": one.place.partition,
                "offset": one.offset,
                "origin_topic": one.origin and one.origin.topic,
                "origin_partition": one.origin and one.origin.partition,
                "origin_offset": None if one.origin is None else one.origin_offset,
                "message": one.message,
                "left": one.left,
                "is_done": one.left is None and not dry_run,
            }
            if one.left is not None:
                text = f"left: {one.place} offset {one.offset}: {one.left}"
                output.say(f"{text} ({origin})" if origin else text, fields)
            elif output.as_json or dry_run:
                output.say(f"{one.place} offset {one.offset} would go to {origin}", fields)
    for name, number in done.items():
        verb = "would send" if dry_run else "sent"
        output.remark(f"{verb} {counted(f'{number:,}', 'record')} back to {name}")
    if not done and not left_count:
        output.remark(f"{topic} has no dead letters that were not sent back")
    if left_count:
        sys.exit(EXIT_FAILED)
