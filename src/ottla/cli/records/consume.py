"""`ottla consume`: the records of topics, of a broker or of a data directory."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from ottla.base.errors import UserError
from ottla.base.events import pass_over
from ottla.cli.completion.names import complete_topics
from ottla.cli.records.reading import entries, parse_plan, reading_options
from ottla.cli.target import Target, TargetCommand, target_argument
from ottla.cli.terminal import report_remark
from ottla.cli.tiers import tier_options
from ottla.search.sources import ClusterRecords, FileRecords, RecordSource


@click.command(
    "consume",
    cls=TargetCommand,
    examples=(
        "ottla consume localhost:9092 orders -o -10 --follow",
        "ottla consume data/ orders --where '.total > 100' --format '{key}: {.total}'",
    ),
)
@target_argument(directories=True)
@click.argument("topics", metavar="TOPIC...", nargs=-1, shell_complete=complete_topics)
@click.option(
    "--group", "-G", help="Consumer group to read as: prints records that the group has not read."
)
@reading_options(default_format="value")
@click.option(
    "--isolation",
    type=click.Choice(["read_committed", "read_uncommitted"]),
    default="read_committed",
    show_default=True,
    help="With read_committed, records of open and aborted transactions are left out.",
)
@tier_options
def consume_command(
    target: Target, topics: tuple[str, ...], group: str | None, isolation: str, **given: Any
) -> None:
    """Print the records of topics: each value as bytes, followed by a newline.

    TARGET is a broker, or a data directory, whose files are only read. TOPIC may be a pattern:
    'orders-*', or a regular expression that begins with ^. Partitions are printed one after the
    other; --follow then prints new records as they are written. With --group the group's members
    share the partitions, and the offsets of printed records are committed.
    """
    target = target.with_tier(given)
    plan, printer = parse_plan(topics, given, target.registry)
    if group is not None:
        if target.tier is not None:
            raise UserError(
                "--tier reads files, and the offsets of a group are committed to a broker"
            )
        from ottla.cli.records.group import print_as_group

        print_as_group(target, group, plan, printer, isolation=isolation)
        return
    with _source(
        target, read_committed=isolation == "read_committed", is_quiet=given["is_quiet"]
    ) as source:
        printer.print_all(entries(source, plan))


@contextmanager
def _source(target: Target, *, read_committed: bool, is_quiet: bool) -> Iterator[RecordSource]:
    on_remark = pass_over if is_quiet else report_remark
    if target.is_directory:
        target.check_directories()
        yield FileRecords.at(
            target.directories,
            read_committed=read_committed,
            on_remark=on_remark,
            tier=target.tier,
        )
        return
    with target.patient().open() as cluster:
        yield ClusterRecords(cluster, read_committed=read_committed, on_remark=on_remark)
