"""`ottla log dump`: what the files of a log hold, as tables or as JSON."""

import base64
import json
import sys
from collections.abc import Callable, Iterable
from dataclasses import fields
from itertools import groupby, islice
from typing import TYPE_CHECKING, Any

import click

from ottla.base.errors import UserError
from ottla.base.files import OsFileSystem
from ottla.cli.log_text import offsets_text, text_of_bytes, time_text
from ottla.storage.inspection import rows
from ottla.storage.inspection.dump import dump_file, files_to_dump
from ottla.storage.inspection.rows import Row

if TYPE_CHECKING:
    from rich.table import Table

ROWS_PER_TABLE = 500
"""A table is laid out as a whole; a longer listing repeats its heading."""

WIDE = 10_000
"""Columns where no terminal sets a limit: a file or a pipe gets its lines unbroken."""


@click.command("dump")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option("--deep", is_flag=True, help="Print the records inside the batches too.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line.")
def dump_command(paths: tuple[str, ...], deep: bool, as_json: bool) -> None:
    """Print what each PATH holds: a file, a partition's directory or a log directory.

    Damage is shown where it is, and does not end the listing. Nothing is written, and a running
    broker is not disturbed.
    """
    files = OsFileSystem()
    if as_json:
        write: Callable[[str, Iterable[Row]], None] = write_json
    else:
        write = Listing(deep=deep).write
    for path in paths:
        try:
            for one in files_to_dump(files, path):
                write(one, dump_file(files, one, deep=deep))
        except BrokenPipeError:
            raise
        except OSError as error:
            raise UserError(f"{error.filename or path}: {error.strerror}") from error


def write_json(path: str, found: Iterable[Row]) -> None:
    for row in found:
        click.echo(json.dumps({"file": path, "type": row.TYPE, **json_fields(row)}))


def json_fields(row: Row) -> dict[str, Any]:
    """A row's fields as JSON has them: bytes in base64, headers as objects."""
    values = {one.name: getattr(row, one.name) for one in fields(row)}
    if isinstance(row, rows.RecordRow):
        values["headers"] = [
            {"key": name, "value": json_bytes(value)} for name, value in row.headers
        ]
        values["key"], values["value"] = json_bytes(row.key), json_bytes(row.value)
    return values


def json_bytes(value: bytes | None) -> str | None:
    return None if value is None else base64.b64encode(value).decode("ascii")


class Listing:
    """A heading for each file, then its rows: tables, and lines for what fits no table.

    With `deep` a batch is a line too, and its records are indented lines below it.
    """

    def __init__(self, *, deep: bool) -> None:
        from rich.console import Console

        width = None if sys.stdout.isatty() else WIDE
        self._console = Console(width=width, highlight=False)
        self._lines = dict(LINES)
        if not deep:
            del self._lines[rows.BatchRow]

    def write(self, path: str, found: Iterable[Row]) -> None:
        for row_type, group in groupby(found, key=type):
            text_of = self._lines.get(row_type)
            if row_type is rows.FileRow:
                self._write_heading(path, next(group))
            elif text_of is not None:
                for row in group:
                    self._write_line(text_of(row), style=STYLES.get(row_type, ""))
            else:
                while some := list(islice(group, ROWS_PER_TABLE)):
                    self._console.print(table_of([cells(row) for row in some]))
        self._console.print()

    def _write_heading(self, path: str, row: Row) -> None:
        assert isinstance(row, rows.FileRow)
        self._write_line(f"{path}: {row.kind}, {row.size} bytes", style="bold")

    def _write_line(self, text: str, *, style: str = "") -> None:
        self._console.print(text, style=style, markup=False, soft_wrap=True)


def table_of(lines: list[dict[str, str]]) -> "Table":
    """Columns that are empty in every line are left out."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    names = [name for name in lines[0] if any(line[name] for line in lines)]
    for name in names:
        justify = "left" if name in LEFT_COLUMNS else "right"
        table.add_column(name, justify=justify, overflow="fold")  # type: ignore[arg-type]
    for line in lines:
        bad = line.get("crc", "") not in ("", "ok")
        table.add_row(*(Text(line[name]) for name in names), style="red" if bad else None)
    return table


def cells(row: Row) -> dict[str, str]:
    """Column names and texts; an empty text stands for nothing to say."""
    if isinstance(row, rows.BatchRow):
        return batch_cells(row)
    if isinstance(row, rows.TimeIndexRow):
        return {"timestamp (UTC)": time_text(row.timestamp), "offset": str(row.offset)}
    if isinstance(row, rows.ProducerRow):
        return producer_cells(row)
    return {
        one.name.replace("_", " "): "" if value is None else str(value)
        for one in fields(row)
        for value in [getattr(row, one.name)]
    }


def batch_cells(row: rows.BatchRow) -> dict[str, str]:
    flags = {
        "transactional": row.is_transactional,
        "control": row.is_control,
        f"horizon {time_text(row.delete_horizon_ms or 0)}": row.delete_horizon_ms is not None,
        "LogAppendTime": row.timestamp_type == "LogAppendTime",
        f"magic {row.magic}": row.magic != 2,
    }
    return {
        "position": str(row.position),
        "offsets": offsets_text(row.base_offset, row.last_offset),
        "count": "" if row.count is None else str(row.count),
        "size": str(row.size),
        "codec": row.compression or "?",
        "timestamps (UTC)": time_range_text(row.base_timestamp, row.max_timestamp),
        "leader epoch": "" if row.partition_leader_epoch < 0 else str(row.partition_leader_epoch),
        "producer": "" if row.producer_id < 0 else f"{row.producer_id}/{row.producer_epoch}",
        "sequence": offsets_text(row.base_sequence, row.last_sequence)
        if row.base_sequence >= 0
        else "",
        "flags": ", ".join(name for name, is_set in flags.items() if is_set),
        "crc": "ok" if row.is_valid else f"WRONG: {row.error}",
    }


def time_range_text(first_ms: int | None, last_ms: int) -> str:
    """Both ends; the day is not said twice."""
    if last_ms < 0:
        return ""
    last = time_text(last_ms)
    if first_ms is None or first_ms == last_ms:
        return last
    first = time_text(first_ms)
    return f"{first} – {last[11:] if first[:11] == last[:11] else last}"


def producer_cells(row: rows.ProducerRow) -> dict[str, str]:
    first = row.current_txn_first_offset
    return {
        "producer": f"{row.producer_id}/{row.producer_epoch}",
        "last offset": "" if row.last_offset < 0 else str(row.last_offset),
        "last sequence": "" if row.last_sequence < 0 else str(row.last_sequence),
        "offset delta": str(row.offset_delta),
        "last timestamp (UTC)": time_text(row.last_timestamp),
        "coordinator epoch": "" if row.coordinator_epoch < 0 else str(row.coordinator_epoch),
        "open transaction from": "" if first is None else str(first),
    }


def batch_text(row: Row) -> str:
    assert isinstance(row, rows.BatchRow)
    return "batch  " + "  ".join(
        f"{name} {text}" for name, text in batch_cells(row).items() if text
    )


def record_text(row: Row) -> str:
    """Sizes are there only where the value itself is not."""
    assert isinstance(row, rows.RecordRow)
    parts = [f"  offset {row.offset}"]
    if row.timestamp >= 0:
        parts.append(time_text(row.timestamp))
    if row.sequence >= 0:
        parts.append(f"sequence {row.sequence}")
    if row.control_type is not None:
        parts.append(row.control_type)
        if row.coordinator_epoch is not None:
            parts.append(f"coordinator epoch {row.coordinator_epoch}")
        return "  ".join(parts)
    parts += [f"key {text_of_bytes(row.key)}", f"value {text_of_bytes(row.value)}"]
    if row.headers:
        headers = ", ".join(f"{name}={text_of_bytes(value)}" for name, value in row.headers)
        parts.append(f"headers {headers}")
    return "  ".join(parts)


def damage_text(row: Row) -> str:
    assert isinstance(row, rows.DamageRow)
    size = "" if row.size is None else f", {row.size} bytes"
    return f"DAMAGE at byte {row.position}{size}: {row.reason}"


def free_text(row: Row) -> str:
    assert isinstance(row, rows.FreeRow)
    return f"(zeros from byte {row.position} on: {row.size} bytes of room)"


def property_text(row: Row) -> str:
    assert isinstance(row, rows.PropertyRow)
    return f"{row.name}: {row.value}"


LINES: dict[type[Row], Callable[[Row], str]] = {
    rows.BatchRow: batch_text,
    rows.RecordRow: record_text,
    rows.DamageRow: damage_text,
    rows.FreeRow: free_text,
    rows.PropertyRow: property_text,
}
STYLES = {rows.DamageRow: "bold red", rows.FreeRow: "dim", rows.BatchRow: "bold"}
LEFT_COLUMNS = ("codec", "flags", "crc", "topic")
