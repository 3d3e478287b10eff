"""`ottla records`: prints the records of a data directory, without a broker and without writing."""

from typing import Any

import click

from ottla.base.errors import UserError
from ottla.base.events import pass_over
from ottla.cli.completion.names import complete_topics
from ottla.cli.records.old_logs import OldRecords
from ottla.cli.records.reading import entries, parse_plan, reading_options
from ottla.cli.target import Target, TargetCommand, target_argument
from ottla.cli.terminal import report_remark, report_skipped
from ottla.cli.tiers import tier_of, tier_options
from ottla.search.sources import FileRecords


@click.command(
    "records",
    cls=TargetCommand,
    examples=(
        "ottla records data/ orders -o @today --where '.total > 100'",
        "ottla records data/ orders -p 0 --offset 42 -n 1 --json",
    ),
)
@target_argument(directories=True)
@click.argument("topics", metavar="TOPIC...", nargs=-1, shell_complete=complete_topics)
@click.option("--topic", "-t", "more_topics", multiple=True, help="Topic to read.")
@reading_options(default_format="line")
@click.option(
    "--isolation",
    type=click.Choice(["read_committed", "read_uncommitted"]),
    default="read_uncommitted",
    show_default=True,
    help="With read_committed, records of open and aborted transactions are left out.",
)
@tier_options
@click.option(
    "--skip-damaged", is_flag=True, help="Continue after damage; skipped offsets go to stderr."
)
def records_command(
    target: Target,
    topics: tuple[str, ...],
    more_topics: tuple[str, ...],
    isolation: str,
    skip_damaged: bool,
    **given: Any,
) -> None:
    """Print the records of topics from the files in TARGET, a data directory.

    Works while a broker runs on the directory, and never writes to it. Control records are left
    out. A log directory of Kafka 0.7 can be read too; its offsets are byte positions. Exits with 1
    if the log is damaged. TOPIC may be a pattern: 'orders-*', '^orders-[0-9]'.
    """
    if not target.is_directory:
        raise UserError(f"records reads files; for a broker use: ottla consume {target.text} TOPIC")
    tier = tier_of(given)
    plan, printer = parse_plan((*topics, *more_topics), given, target.registry)
    if old := OldRecords.found_at(target.directories[0]):
        printer.print_all(entries(old, plan))
        return
    source = FileRecords.at(
        target.directories,
        read_committed=isolation == "read_committed",
        on_damage=report_skipped if skip_damaged else None,
        on_remark=pass_over if given["is_quiet"] else report_remark,
        tier=tier,
    )
    printer.print_all(entries(source, plan))
