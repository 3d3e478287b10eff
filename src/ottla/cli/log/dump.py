"""`ottla log dump`: prints the contents of a log's files, as tables or as JSON."""

import base64
from collections.abc import Callable, Iterable
from dataclasses import fields
from itertools import groupby, islice
from typing import Any

import click

from ottla.base.times import time_text
from ottla.cli.endings import named_files
from ottla.cli.output import NAMES_ONLY, Output, output_options
from ottla.cli.terminal import ExampleCommand, offsets_text, print_json, text_of_bytes
from ottla.cli.visible import styled
from ottla.storage.diagnosis import rows
from ottla.storage.diagnosis.rows import Row

ROWS_PER_TABLE = 500
"""Rows of one table; a longer listing repeats the heading."""


@click.command(
    "dump",
    cls=ExampleCommand,
    examples=(
        "ottla log dump data/orders-0",
        "ottla log dump --deep data/orders-0",
    ),
)
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option("--deep", is_flag=True, help="Also print the records of each batch.")
@output_options(NAMES_ONLY)
def dump_command(paths: tuple[str, ...], deep: bool, output: Output) -> None:
    """Print what each PATH holds: a file, a partition's directory or a log directory.

    Damage is shown where it is, and does not end the listing. Nothing is written, and a running
    broker is not disturbed.
    """
    from ottla.base.files import OsFileSystem
    from ottla.storage.diagnosis.dump import dump_file, files_to_dump

    files = OsFileSystem()
    if output.as_json:
        write: Callable[[str, Iterable[Row]], None] = write_json
    else:
        write = Listing(deep=deep).write
    for path in paths:
        with named_files(path):
            found = files_to_dump(files, path)
            if output.is_brief:
                output.names(found)
                continue
            for one in found:
                write(one, dump_file(files, one, deep=deep))


def write_json(path: str, found: Iterable[Row]) -> None:
    for row in found:
        print_json({"file": path, "type": row.TYPE, **json_fields(row)})


def json_fields(row: Row) -> dict[str, Any]:
    """Returns a row's fields for JSON: bytes in base64, headers as objects."""
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
    """Prints a heading for each file, then its rows: as tables, or as lines if they fit no table.

    With `deep` each batch is a line, followed by its records as indented lines.
    """

    def __init__(self, *, deep: bool) -> None:
        self._lines = dict(LINES)
        if not deep:
            del self._lines[rows.BatchRow]

    def write(self, path: str, found: Iterable[Row]) -> None:
        for row_type, group in groupby(found, key=type):
            if row_type is rows.FileRow:
                click.echo(styled(heading_text(path, next(group)), bold=True))
            elif row_type in self._lines:
                text_of, style = self._lines[row_type]
                for row in group:
                    click.echo(styled(text_of(row), **style))
            else:
                while some := list(islice(group, ROWS_PER_TABLE)):
                    write_table([cells(row) for row in some])
        click.echo()


def write_table(lines: list[dict[str, str]]) -> None:
    """Prints rows, without columns that are empty in every row.

    It formats them itself: a library for tables takes 30 times as long, and a segment can have
    100,000 rows.
    """
    names = [name for name in lines[0] if any(line[name] for line in lines)]
    widths = {name: max(len(name), *(len(line[name]) for line in lines)) for name in names}
    click.echo(styled(line_text({name: name for name in names}, widths), dim=True))
    for line in lines:
        is_bad = line.get("crc", "ok") != "ok"
        click.echo(styled(line_text(line, widths), fg="red" if is_bad else None))


def line_text(line: dict[str, str], widths: dict[str, int]) -> str:
    return "  ".join(
        line[name].ljust(width) if name in LEFT_COLUMNS else line[name].rjust(width)
        for name, width in widths.items()
    ).rstrip()


def heading_text(path: str, row: Row) -> str:
    assert isinstance(row, rows.FileRow)
    return f"{path}: {row.kind}, {row.size} bytes"


def cells(row: Row) -> dict[str, str]:
    """Returns column names and texts; an empty text for a value that does not apply."""
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
    """Returns both ends; the date is not repeated if they share it."""
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
    """Describes a record; sizes are only shown without the value itself."""
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


LINES: dict[type[Row], tuple[Callable[[Row], str], dict[str, Any]]] = {
    rows.BatchRow: (batch_text, {"bold": True}),
    rows.RecordRow: (record_text, {}),
    rows.DamageRow: (damage_text, {"fg": "red", "bold": True}),
    rows.FreeRow: (free_text, {"dim": True}),
    rows.PropertyRow: (property_text, {}),
}
"""Rows that are lines of their own, and how they look on a terminal."""

LEFT_COLUMNS = ("codec", "flags", "crc", "topic")
