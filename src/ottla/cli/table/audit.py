"""`ottla audit`: compares a loaded table with the log."""

import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from ottla.base.errors import UserError
from ottla.cli.late_line import LateLine
from ottla.cli.output import Output, output_options
from ottla.cli.settings_files import (
    client_config_option,
    read_client_settings,
    read_registry_login,
    registry_config_option,
)
from ottla.cli.terminal import ExampleCommand, counted
from ottla.cli.tiers import tier_of, tier_options

if TYPE_CHECKING:
    from ottla.loading.auditing.report import AuditReport

EXIT_DIFFERENCES = 1
DIFFERENCES_SHOWN = 20


@click.command(
    "audit", cls=ExampleCommand, examples=("ottla audit data/ orders --table tables/orders",)
)
@click.argument("source", metavar="DIR-OR-BOOTSTRAP")
@click.argument("topic_argument", metavar="[TOPIC]", required=False)
@click.option("--topic", "-t", help="Topic that was loaded.")
@click.option(
    "--table",
    required=True,
    type=click.Path(file_okay=False),
    metavar="PATH",
    help="Table to compare.",
)
@click.option(
    "--all", "compare_all", is_flag=True, help="Compare every row instead of a sample of files."
)
@click.option(
    "--compacted",
    is_flag=True,
    help="The topic was compacted since it was loaded: the table must have every record that is "
    "left, and may have rows of others, which are not compared. Compares every row otherwise.",
)
@click.option("--seed", default=0, show_default=True, help="Seed for choosing the sample of files.")
@click.option(
    "--skip-damaged", is_flag=True, help="Compare only what a load with --skip-damaged would read."
)
@registry_config_option
@client_config_option("source")
@tier_options
@output_options()
def audit_command(
    source: str,
    topic_argument: str | None,
    topic: str | None,
    table: str,
    output: Output,
    **given: Any,
) -> None:
    """Verify that a table equals its log, or report the first difference.

    The audit checks that commits follow each other without gap or overlap, that the files are those
    of the ledger, that the log has the same records and batches as when they were loaded, and that
    rows equal records, in a sample of files or with --all in every file. Exits with 0 if all is
    equal, and with 1 if something differs or the log is damaged. Nothing is written.
    """
    from ottla.loading.auditing.audit import audit, audit_compacted
    from ottla.sources.opening import open_log, topic_options
    from ottla.tables import Table

    topic = topic or topic_argument
    if topic is None:
        raise UserError("name the topic that was loaded: ottla audit SOURCE TOPIC --table PATH")
    client = read_client_settings(given["source_config"])
    options = topic_options(
        source, topic, skip_damaged=given["skip_damaged"], client=client, tier=tier_of(given)
    )
    login = read_registry_login(given["registry_config"])
    with LateLine(f"comparing {table} with {topic}", is_quiet=output.is_quiet) as line:
        log = open_log(options)
        line.say(f"comparing the rows and records of {topic}")
        if given["compacted"]:
            report = audit_compacted(Table(table), log, topic, login=login)
        else:
            report = audit(
                Table(table),
                log,
                topic,
                compare_all=given["compare_all"],
                seed=given["seed"],
                login=login,
            )
    output.say(_text(report), _fields(report))
    if not report.is_equal:
        sys.exit(EXIT_DIFFERENCES)


def _fields(report: "AuditReport") -> dict[str, object]:
    return {**asdict(report), "is_equal": report.is_equal}


def _removed(report: "AuditReport") -> str:
    if not report.rows_only_here:
        return ""
    return f"; {counted(f'{report.rows_only_here:,}', 'row')} of records that compaction removed"


def _text(report: "AuditReport") -> str:
    lines = [one.text for one in report.differences[:DIFFERENCES_SHOWN]]
    more = len(report.differences) - len(lines)
    if more:
        lines.append(f"and {more} more")
    lines += [
        f"partition {partition}: the log no longer has offsets {one.from_offset} to "
        f"{one.until_offset - 1}, which could not be compared"
        for partition, one in report.unseen
    ]
    words = "equal" if report.is_equal else "NOT equal"
    commits = ", ".join(
        counted(count, name)
        for count, name in (
            (report.loads, "load"),
            (report.reruns, "rerun"),
            (report.optimizations, "optimization"),
            (report.deletions, "deletion"),
        )
        if count
    )
    quarantined = f" and {report.quarantined:,} in quarantine" if report.quarantined else ""
    if report.forgotten:
        quarantined += f", {report.forgotten:,} deleted on purpose"
    lines.append(
        f"{report.table} and {report.topic} are {words}: {commits or 'no load'}; "
        f"{counted(report.files, 'file')}, {counted(f'{report.rows:,}', 'row')}{quarantined}; "
        f"{report.rows_counted:,} counted in the log, "
        f"{counted(f'{report.batches_matched:,}', 'batch')} matched, "
        f"{counted(f'{report.rows_compared:,}', 'row')} compared{_removed(report)}"
    )
    return "\n".join(lines)
