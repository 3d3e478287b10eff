"""`ottla table vacuum`: removes files that reruns and optimizations replaced."""

from typing import TYPE_CHECKING

import click

from ottla.cli.output import RESULTS_ONLY, Output, output_options
from ottla.cli.terminal import ExampleCommand, counted

if TYPE_CHECKING:
    from ottla.tables import VacuumReport


@click.command("vacuum", cls=ExampleCommand, examples=("ottla table vacuum tables/orders",))
@click.argument("path", metavar="TABLE", type=click.Path(file_okay=False))
@click.option(
    "--keep-hours",
    type=click.FloatRange(min=0),
    default=24.0,
    show_default=True,
    help="Keep files that were replaced in the last HOURS: readers may still use them.",
)
@click.option("--dry-run", is_flag=True, help="List the files without removing them.")
@output_options(RESULTS_ONLY)
def vacuum_command(path: str, keep_hours: float, dry_run: bool, output: Output) -> None:
    """Remove files that reruns and optimizations replaced, and files that killed commits left.

    Current files of the table stay. HOURS are whole hours: half an hour counts as one.
    """
    from ottla.base.clock import SystemClock
    from ottla.tables import HOUR_MS, vacuum

    report = vacuum(path, SystemClock(), retention_ms=round(keep_hours * HOUR_MS), is_dry=dry_run)
    if dry_run and not output.as_json:
        output.names(f"{report.table}/{each}" for each in report.removed_paths)
    output.say(_text(report, dry_run), _fields(report, dry_run))


def _fields(report: "VacuumReport", dry_run: bool) -> dict[str, object]:
    return {
        "table": report.table,
        "is_dry_run": dry_run,
        "removed": [f"{report.table}/{each}" for each in report.removed_paths],
        "removed_bytes": report.removed_size,
        "kept": [f"{report.table}/{each}" for each in report.retained_paths],
    }


def _text(report: "VacuumReport", dry_run: bool) -> str:
    from rich.filesize import decimal

    files = counted(len(report.removed_paths), "file")
    verb = "would remove" if dry_run else "removed"
    parts = [f"{verb} {files} that were replaced or left behind"]
    if report.removed_paths:
        parts[0] += f" ({decimal(report.removed_size)})"
    if report.retained_paths:
        parts.append(
            f"{counted(len(report.retained_paths), 'file')} stay for readers (--keep-hours)"
        )
    return "; ".join(parts)
