"""`ottla table forget`: deletes rows on purpose, so that no rerun brings them back."""

import getpass
import socket
from typing import TYPE_CHECKING

import click

from ottla.cli.output import Output, output_options
from ottla.cli.tables import print_rows
from ottla.cli.terminal import ExampleCommand, confirm, counted, progress_line, yes_option

if TYPE_CHECKING:
    from ottla.tables import ForgetOptions, ForgetReport, VacuumReport


@click.command(
    "forget",
    cls=ExampleCommand,
    examples=("ottla table forget tables/orders --where \"key = 'customer-7'\" --dry-run",),
)
@click.argument("path", metavar="TABLE", type=click.Path(file_okay=False))
@click.option(
    "--where",
    required=True,
    metavar="CONDITION",
    help="Rows to delete: an SQL expression over the table's columns, as DuckDB takes it.",
)
@click.option(
    "--quarantine",
    is_flag=True,
    help="Delete records in quarantine in place of rows; its columns are those of raw records, and "
    "reason.",
)
@click.option("--reason", default="", metavar="TEXT", help="Why, for the record: a ticket's name.")
@click.option("--by", metavar="NAME", help="Who, for the record; this user by default.")
@click.option(
    "--condition-as",
    type=click.Choice(["hash", "text", "none"]),
    default="hash",
    show_default=True,
    help="What the record keeps of CONDITION, which may itself name a person: a salted hash, its "
    "text, or nothing.",
)
@click.option(
    "--vacuum",
    "is_vacuuming",
    is_flag=True,
    help="Then remove all replaced files at once, also those that readers may still use: they "
    "still have the rows.",
)
@click.option("--dry-run", is_flag=True, help="Count the rows without deleting them.")
@yes_option
@output_options()
def forget_command(path: str, output: Output, **given: str | bool | None) -> None:
    """Delete the rows of a condition on purpose. At a terminal the command asks first.

    The table records who deleted how many rows, when, and their offsets: ottla audit then proves
    that the table equals its log but for these, and neither loads nor reruns bring them back.
    Records that are produced later are new, also if they match. The log keeps its records, and
    older versions of the table their files, until --vacuum or: ottla table vacuum --keep-hours 0.
    Needs duckdb.
    """
    from ottla.base.clock import SystemClock
    from ottla.loading.local_engine import LocalEngine
    from ottla.tables import count_matching, forget, vacuum

    options = _options(given)
    with progress_line("looking at the table's rows", is_shown=not output.is_quiet):
        counts = count_matching(path, LocalEngine(), options)
    if given["dry_run"] or not counts:
        output.say(_planned(path, counts, output), _planned_fields(path, counts))
        return
    if output.is_prose:
        print_rows(("#partition", "#rows"), [(one, f"{n:,}") for one, n in counts.items()])
    question = f"Delete {counted(f'{sum(counts.values()):,}', 'row')} of {path} for good?"
    confirm(question, is_confirmed=bool(given["is_confirmed"]))
    with progress_line("writing the other rows", is_shown=not output.is_quiet):
        report = forget(path, LocalEngine(), options)
        removed = vacuum(path, SystemClock(), retention_ms=0) if given["is_vacuuming"] else None
    output.say(_text(report, removed), _fields(report, removed))


def _options(given: dict[str, str | bool | None]) -> "ForgetOptions":
    from ottla.tables import ConditionRecord, FileRole, ForgetOptions

    return ForgetOptions(
        condition=str(given["where"]),
        by=str(given["by"] or f"{getpass.getuser()}@{socket.gethostname()}"),
        reason=str(given["reason"]),
        recorded=ConditionRecord(given["condition_as"]),
        role=FileRole.QUARANTINE if given["quarantine"] else FileRole.ROWS,
    )


def _planned(path: str, counts: dict[int, int], output: Output) -> str:
    if not counts:
        return f"no row of {path} matches"
    if output.is_prose:
        print_rows(("#partition", "#rows"), [(one, f"{n:,}") for one, n in counts.items()])
    return f"would delete {counted(f'{sum(counts.values()):,}', 'row')} of {path}"


def _planned_fields(path: str, counts: dict[int, int]) -> dict[str, object]:
    return {
        "table": path,
        "is_done": False,
        "commit": None,
        "rows": sum(counts.values()),
        "rows_by_partition": {str(one): count for one, count in counts.items()},
    }


def _fields(report: "ForgetReport", removed: "VacuumReport | None") -> dict[str, object]:
    return {
        "table": report.table,
        "is_done": report.commit_id is not None,
        "commit": report.commit_id,
        "rows": report.row_count,
        "rows_by_partition": {str(one): count for one, count in report.counts.items()},
        "files_replaced": report.files_replaced,
        "files_removed": None if removed is None else len(removed.removed_paths),
        "seconds": round(report.seconds, 3),
    }


def _text(report: "ForgetReport", removed: "VacuumReport | None") -> str:
    if report.commit_id is None:
        return f"no row of {report.table} matches"
    text = f"deleted {counted(f'{report.row_count:,}', 'row')} of {report.table} for good"
    if removed is None:
        return (
            f"{text}; they are still in {counted(report.files_replaced, 'replaced file')}, until: "
            f"ottla table vacuum {report.table} --keep-hours 0"
        )
    return f"{text}, and removed {counted(len(removed.removed_paths), 'file')}"
