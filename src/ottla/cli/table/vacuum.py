"""`ottla table vacuum`: removes files that reruns and compactions replaced."""

from typing import TYPE_CHECKING

import click

from ottla.cli.terminal import ExampleCommand, counted, print_json

if TYPE_CHECKING:
    from ottla.tables.vacuum import VacuumReport


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
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, with the files.")
def vacuum_command(path: str, keep_hours: float, dry_run: bool, as_json: bool) -> None:
    """Remove files that reruns and compactions replaced, and files that killed commits left.

    Current files of the table stay. HOURS are whole hours: half an hour counts as one.
    """
    from ottla.base.clock import SystemClock
    from ottla.tables.vacuum import HOUR_MS, vacuum

    report = vacuum(path, SystemClock(), kept_ms=round(keep_hours * HOUR_MS), is_dry=dry_run)
    if as_json:
        print_json(_fields(report, dry_run))
        return
    if dry_run:
        for each in report.removed_paths:
            click.echo(f"{report.table}/{each}")
    click.echo(_text(report, dry_run))


def _fields(report: "VacuumReport", dry_run: bool) -> dict[str, object]:
    return {
        "table": report.table,
        "is_dry_run": dry_run,
        "removed": [f"{report.table}/{each}" for each in report.removed_paths],
        "removed_bytes": report.removed_size,
        "kept": [f"{report.table}/{each}" for each in report.kept_paths],
    }


def _text(report: "VacuumReport", dry_run: bool) -> str:
    from rich.filesize import decimal

    files = counted(len(report.removed_paths), "file")
    verb = "would remove" if dry_run else "removed"
    parts = [f"{verb} {files} that were replaced or left behind"]
    if report.removed_paths:
        parts[0] += f" ({decimal(report.removed_size)})"
    if report.kept_paths:
        parts.append(f"{counted(len(report.kept_paths), 'file')} stay for readers (--keep-hours)")
    return "; ".join(parts)
