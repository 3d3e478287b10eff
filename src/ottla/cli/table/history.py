"""`ottla table history`: prints what each commit did to a table."""

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from ottla.cli.output import Output, output_options
from ottla.cli.terminal import ExampleCommand, new_console, new_table, print_json

if TYPE_CHECKING:
    from ottla.tables import LedgerEntry

COMMITS_SHOWN = 20


@click.command("history", cls=ExampleCommand, examples=("ottla table history tables/orders",))
@click.argument("path", metavar="TABLE", type=click.Path(file_okay=False))
@click.option(
    "--limit",
    "-n",
    type=click.IntRange(min=1),
    help=f"Number of latest commits to print; by default {COMMITS_SHOWN}, with --json and -q all.",
)
@output_options("Print commit ids only, one per line.")
def history_command(path: str, limit: int | None, output: Output) -> None:
    """List the commits of a table: versions, offsets that were read, and how files changed. A
    version can be read again (ottla.table.dataset(TABLE, version=...)) while its files exist.
    """
    from ottla.tables import Table

    entries = Table(path).entries()
    shown = entries[-(limit or COMMITS_SHOWN) :] if limit or output.is_prose else entries
    if output.as_json:
        for entry in shown:
            print_json(_fields(entry))
    elif output.is_quiet:
        output.names(entry.commit_id for entry in shown)
    else:
        _show(shown, len(entries))


def _fields(entry: "LedgerEntry") -> dict[str, object]:
    return {
        "commit_id": entry.commit_id,
        "version": entry.version,
        "committed_ms": entry.committed_ms,
        "action": entry.action.value,
        "source": entry.source,
        "rows_read": entry.row_count,
        "rows_upserted": None if entry.merged is None else entry.merged.upserted,
        "rows_superseded": None if entry.merged is None else entry.merged.superseded,
        "files_added": len({file.path for file in entry.files}),
        "files_replaced": len(entry.replaces),
        "rows_forgotten": entry.forgotten_count,
        "forgotten": None if entry.forgotten is None else asdict(entry.forgotten),
        "until_offsets": {str(one.partition): one.until_offset for one in entry.partitions},
    }


def _show(entries: "list[LedgerEntry]", count: int) -> None:
    from ottla.base.times import second_text

    shown = new_table("commit", "version", "time (UTC)", "action", "rows", "files", "to offsets")
    for entry in entries:
        ends = ", ".join(f"{one.partition}: {one.until_offset:,}" for one in entry.partitions)
        shown.add_row(
            str(entry.commit_id),
            "" if entry.version is None else str(entry.version),
            second_text(entry.committed_ms),
            entry.action.value,
            _rows(entry),
            _files(entry),
            ends,
        )
    shown.caption = f"{len(entries):,} of {count:,} commits"
    new_console().print(shown)


def _rows(entry: "LedgerEntry") -> str:
    if entry.forgotten is not None:
        return f"-{entry.forgotten_count:,}"
    if entry.merged is None:
        return f"{entry.row_count:,}" if entry.partitions else ""
    return f"{entry.row_count:,} (+{entry.merged.upserted:,} -{entry.merged.superseded:,})"


def _files(entry: "LedgerEntry") -> str:
    added = len({file.path for file in entry.files})
    return f"+{added}" + (f" -{len(entry.replaces)}" if entry.replaces else "")
