"""`ottla table read`: prints rows of a table, for people or other programs."""

import base64
import json
import math
from collections.abc import Iterator, Sequence
from datetime import date
from typing import Any

import click

from ottla.base.clock import SystemClock
from ottla.base.errors import UserError
from ottla.cli.arrow_rows import python_rows
from ottla.cli.output import RESULTS_ONLY, Output, output_options
from ottla.cli.terminal import ExampleCommand, new_console, new_table, print_json
from ottla.search.positions import parse_time

ROWS_SHOWN = 20
COLUMNS_SHOWN = ("partition", "offset", "timestamp", "key", "value")
"""Columns shown by default on a terminal."""


@click.command("read", cls=ExampleCommand, examples=("ottla table read tables/orders --limit 10",))
@click.argument("path", metavar="TABLE", type=click.Path(file_okay=False))
@click.option(
    "--columns",
    metavar="A,B,...",
    help=f"Columns to print; by default {', '.join(COLUMNS_SHOWN)}, with --json all.",
)
@click.option(
    "--limit",
    "-n",
    type=click.IntRange(min=1),
    help=f"Number of rows; by default {ROWS_SHOWN}, with --json all.",
)
@click.option(
    "--version",
    type=click.IntRange(min=0),
    metavar="N",
    help="Rows of an earlier version; ottla table history lists them.",
)
@click.option(
    "--at",
    metavar="TIME",
    help="Rows as they were at a time, such as 2026-01-31T12:00, or an age ago, such as 2h.",
)
@click.option(
    "--offset",
    "offsets",
    metavar="PARTITION=END",
    multiple=True,
    help="Only rows below an end offset, of these partitions alone (repeatable).",
)
@click.option(
    "--quarantine",
    is_flag=True,
    help="The records that could not be decoded, with the reason, in place of the rows.",
)
@output_options(RESULTS_ONLY)
def read_command(
    path: str,
    columns: str | None,
    limit: int | None,
    quarantine: bool,
    output: Output,
    **moment: Any,
) -> None:
    """Print rows of a table, in the order of partitions and offsets in its files.

    Needs neither Spark nor Java. In JSON, bytes are in base64. --version, --at and --offset
    select an earlier state.
    """
    from pyarrow import ArrowException

    import ottla.table

    if quarantine:
        if any(moment.values()):
            raise UserError("--quarantine shows the current one: omit --version, --at and --offset")
        rows = ottla.table.quarantine(path)
    else:
        rows = ottla.table.dataset(path, **_moment(**moment))
    if columns:
        names = [name.strip() for name in columns.split(",")]
    else:
        names = rows.schema.names if output.as_json else _shown(rows.schema.names)
        names = ["partition", "offset", "reason"] if quarantine and not output.as_json else names
    for name in names:
        if name not in rows.schema.names:
            there = ", ".join(rows.schema.names)
            raise UserError(f"{path} has no column {name!r}; it has {there}")
    try:
        _print(rows, names, limit, output)
    except BrokenPipeError:
        raise  # The reader of standard output is gone.
    except (ArrowException, OSError) as error:
        raise click.ClickException(f"{path}: {error}; ottla audit names what is damaged") from error


def _shown(names: Sequence[str]) -> list[str]:
    """The columns for people: of a flat table all that are not the record's own, and its place."""
    if not {"_partition", "_offset"} <= set(names):
        return list(COLUMNS_SHOWN)
    return ["_partition", "_offset", "_timestamp", *(one for one in names if one[0] != "_")]


def _moment(version: int | None, at: str | None, offsets: Sequence[str]) -> dict[str, Any]:
    """Arguments of `ottla.table.dataset`; raises `UserError`."""
    time_ms = None if at is None else parse_time(at.removeprefix("@"), SystemClock().now_ms())
    ends = dict(map(_end_offset, offsets)) or None
    return {"version": version, "time_ms": time_ms, "offsets": ends}


def _end_offset(text: str) -> tuple[int, int]:
    partition, _, end = text.partition("=")
    if not (partition.isdecimal() and end.isdecimal()):
        raise UserError(f"--offset {text}: use PARTITION=END, such as 0=5000")
    return int(partition), int(end)


def _print(rows: Any, names: list[str], limit: int | None, output: Output) -> None:
    if output.as_json:
        for row in _rows(rows, names, limit):
            print_json({name: _plain(value) for name, value in row.items()})
    else:
        _show(names, _rows(rows, names, limit or ROWS_SHOWN), None if output.is_quiet else rows)


def _rows(rows: Any, names: list[str], limit: int | None) -> Iterator[dict[str, Any]]:
    count = 0
    for batch in rows.to_batches(columns=names, use_threads=False):
        for row in python_rows(batch):
            if limit is not None and count >= limit:
                return
            count += 1
            yield row


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_plain(part) for part in value]
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, int | float | str | bool | None) else str(value)


def _show(names: list[str], rows: Iterator[dict[str, Any]], counted: Any) -> None:
    """Prints a table, and a remark on the row count of what is `counted`, if anything."""
    shown = new_table(*names)
    for row in rows:
        shown.add_row(*(_text(row[name]) for name in names))
    if counted is not None:
        shown.caption = f"{shown.row_count:,} of {counted.count_rows():,} rows"
    new_console().print(shown)


def _text(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    if isinstance(value, list | dict):
        return json.dumps(_plain(value))
    return value.isoformat(timespec="milliseconds") if hasattr(value, "hour") else str(value)
