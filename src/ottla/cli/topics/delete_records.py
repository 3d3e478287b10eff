"""`ottla delete-records`: deletes a topic's records before a place."""

import click

from ottla.base.clock import SystemClock
from ottla.cli.completion.names import complete_topics
from ottla.cli.output import Output, output_options
from ottla.cli.tables import print_rows
from ottla.cli.target import Target, TargetCommand, target_argument
from ottla.cli.terminal import confirm, counted, yes_option


@click.command(
    "delete-records",
    cls=TargetCommand,
    examples=(
        "ottla delete-records localhost:9092 orders --before 30d",
        "ottla delete-records data/ orders -p 0 --before 1500",
    ),
)
@target_argument()
@click.argument("topic", metavar="TOPIC", shell_complete=complete_topics)
@click.option(
    "--before",
    "place",
    required=True,
    metavar="PLACE",
    help="latest (all of them), an offset, @TIME such as @2026-01-31T12:00, or an age such as 30d.",
)
@click.option(
    "--partition", "-p", "partitions", type=int, multiple=True, help="Partition; all by default."
)
@click.option("--dry-run", is_flag=True, help="Print what would be deleted without deleting it.")
@yes_option
@output_options()
def delete_records_command(
    target: Target,
    topic: str,
    place: str,
    partitions: tuple[int, ...],
    output: Output,
    **how: bool,
) -> None:
    """Delete the records of TOPIC before PLACE. At a terminal the command asks first.

    Consumers that have not read them continue at the first remaining record.
    """
    from ottla.client.administration.record_deletions import deleted_count, planned_deletion
    from ottla.client.administration.topics import TopicAdmin
    from ottla.diagnosis.offset_reset import parse_place

    reset = parse_place("--before", place, SystemClock().now_ms())
    with target.open() as cluster:
        admin = TopicAdmin(cluster)
        planned = planned_deletion(admin, topic, partitions, reset)
        count = sum(map(deleted_count, planned))
        if planned and not how["dry_run"]:
            question = f"Delete {counted(f'{count:,}', 'record')} of {topic}?"
            confirm(question, is_confirmed=how["is_confirmed"])
            admin.delete_records({one.place: one.after for one in planned})
    if planned and output.is_prose:
        rows = [
            (one.place.partition, one.before, one.after, f"{deleted_count(one):,}")
            for one in planned
        ]
        print_rows(("#partition", "#first offset", "#then", "#records"), rows)
    what = counted(f"{count:,}", "record")
    output.say(
        f"{'would delete' if how['dry_run'] else 'deleted'} {what} of {topic}",
        *(
            {
                "topic": topic,
                "partition": one.place.partition,
                "first_offset_before": one.before,
                "first_offset": one.after,
                "records": deleted_count(one),
                "is_done": not how["dry_run"],
            }
            for one in planned
        ),
    )
