"""`ottla audit`: whether a table that was loaded holds exactly what the log does."""

import json
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from ottla.base.errors import ApiError, CorruptionError

if TYPE_CHECKING:
    from ottla.loading.auditing.report import AuditReport

EXIT_DIFFERENCES = 1
DIFFERENCES_SHOWN = 20


@click.command("audit")
@click.argument("source", metavar="DIR-OR-BOOTSTRAP")
@click.option("--topic", "-t", required=True, help="What was loaded.")
@click.option(
    "--table", required=True, type=click.Path(file_okay=False), metavar="PATH", help="Where to."
)
@click.option(
    "--all", "compare_all", is_flag=True, help="Compare every row, not a sample of files."
)
@click.option("--seed", default=0, show_default=True, help="Which files are the sample.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option(
    "--skip-damaged", is_flag=True, help="Compare what a load with --skip-damaged has read."
)
def audit_command(source: str, topic: str, table: str, **given: Any) -> None:
    """Prove that a table equals its log, or name the first difference.

    The offsets of all commits must follow each other without gap or overlap, the files be those of
    the manifest, the log have as many records and the same batches as when they were loaded, and
    rows be equal to records: those of some files, or with --all of every one. Exits with 0 when all
    is equal, with 1 when not, or when the log is damaged. Reads only.
    """
    from ottla.loading.auditing.audit import audit
    from ottla.sources.log_source import open_log, source_options
    from ottla.sources.options import parse_options
    from ottla.tables.table_directory import TableDirectory

    skip = {"skipDamaged": "true"} if given["skip_damaged"] else {}
    options = parse_options({**source_options(source), **skip, "subscribe": topic})
    try:
        report = audit(
            TableDirectory(table),
            open_log(options),
            topic,
            compare_all=given["compare_all"],
            seed=given["seed"],
        )
    except (ApiError, CorruptionError) as error:
        raise click.ClickException(str(error)) from error
    click.echo(json.dumps(_fields(report)) if given["as_json"] else _text(report))
    if not report.is_equal:
        sys.exit(EXIT_DIFFERENCES)


def _fields(report: "AuditReport") -> dict[str, object]:
    return {**asdict(report), "is_equal": report.is_equal}


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
        f"{count} {name if count == 1 else plural}"
        for count, name, plural in (
            (report.loads, "load", "loads"),
            (report.reruns, "rerun", "reruns"),
            (report.compactions, "compaction", "compactions"),
        )
        if count
    )
    quarantined = f" and {report.quarantined:,} in quarantine" if report.quarantined else ""
    lines.append(
        f"{report.table} and {report.topic} are {words}: {commits or 'no load'}; "
        f"{report.files} files, {report.rows:,} rows{quarantined}; {report.rows_counted:,} counted "
        f"in the log, {report.batches_matched:,} batches matched, {report.rows_compared:,} "
        f"rows compared"
    )
    return "\n".join(lines)
